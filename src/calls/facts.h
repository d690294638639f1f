// SPDX-License-Identifier: Apache-2.0
// What a line of the table says of its call beside its roles: the words of the last column, joined
// by |. Each is a fact that some part of the client or of the worker goes by, so that none of them
// needs to know calls by name.
#pragma once

#include <cstdint>

namespace rgpu::calls {

// Whether the worker may carry the call out while a large copy to the host is under way
// (worker/dispatch/overtaking.h).
enum class Overtakes : uint8_t { never, always, by_rule };

// Who reads the body of a frame: the dispatcher, up to the usual size, or the handler as it comes.
enum class Body : uint8_t { whole, copy, image };

// What the call means for the lease's cap on device memory (worker/limits/memory_cap.h).
enum class Memory : uint8_t {
    unsaid,       // its name and its parameters say enough: it takes none
    taken,        // it may take some
    counted,      // it takes none, but what is counted changes by it or is told by it
    on_host,      // what it makes lies in host memory: the client's, or the server's
    of_context,   // what it makes lies in what its context has already
    counted_for,  // it names or changes what counts already, or will count when it is used
    only_number,  // what it gives is a number, or addresses without memory
};

struct Facts {
    bool work = false;
    bool default_order = false;
    bool current_only = false;
    bool unsafe_in_capture = false;
    bool tells_progress = false;
    bool relieves = false;
    Overtakes overtakes = Overtakes::never;
    Body body = Body::whole;
    Memory memory = Memory::unsaid;

    bool operator==(const Facts &) const = default;

    // Two words of one column do not compile.
    template <class T> static constexpr void join(T &mine, T other, T none)
    {
        if (other == none) return;
        if (mine != none) throw "calls/table: a line says the same column twice";
        mine = other;
    }
    constexpr Facts operator|(const Facts &o) const
    {
        Facts all = *this;
        join(all.work, o.work, false);
        join(all.default_order, o.default_order, false);
        join(all.current_only, o.current_only, false);
        join(all.unsafe_in_capture, o.unsafe_in_capture, false);
        join(all.tells_progress, o.tells_progress, false);
        join(all.relieves, o.relieves, false);
        join(all.overtakes, o.overtakes, Overtakes::never);
        join(all.body, o.body, Body::whole);
        join(all.memory, o.memory, Memory::unsaid);
        return all;
    }
};

// The words, as the table has them. calls/table.def says what each means.
namespace words {

inline constexpr Facts work{.work = true};
inline constexpr Facts default_order{.default_order = true};
inline constexpr Facts current_only{.current_only = true};
inline constexpr Facts unsafe_in_capture{.unsafe_in_capture = true};
inline constexpr Facts tells_progress{.tells_progress = true};
inline constexpr Facts relieves{.relieves = true};
inline constexpr Facts overtakes{.overtakes = Overtakes::always};
inline constexpr Facts overtakes_by_rule{.overtakes = Overtakes::by_rule};
inline constexpr Facts body_is_copy{.body = Body::copy};
inline constexpr Facts body_is_image{.body = Body::image};
inline constexpr Facts takes_memory{.memory = Memory::taken};
inline constexpr Facts counts_memory{.memory = Memory::counted};
inline constexpr Facts memory_on_host{.memory = Memory::on_host};
inline constexpr Facts memory_of_context{.memory = Memory::of_context};
inline constexpr Facts memory_counted_for{.memory = Memory::counted_for};
inline constexpr Facts only_number{.memory = Memory::only_number};

}  // namespace words

}  // namespace rgpu::calls
