// SPDX-License-Identifier: Apache-2.0
// Names of memory that several processes of a job share on one server: what stands in a descriptor
// that a program gets for memory of the GPU server. Layout: doc/protocol.md, "Memory of several
// processes".
//
// A client keeps a name as it comes, and hands it back. Only workers read what is in it, and
// believe nothing of it: whoever has no key has no memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "wire/codec.h"

namespace rgpu::wire {

// 128 bits from the kernel: nobody guesses one.
using ShareKey = std::array<uint8_t, 16>;

struct ShareableName {
    enum class Kind : uint32_t { memory = 1, pool = 2 };

    Kind kind = Kind::memory;
    uint64_t mailbox = 0;  // of the worker that has it (worker/connection/mailbox.h)
    ShareKey key{};
    std::string lease;
};

inline constexpr size_t kMaxShareableName = 256;

inline std::vector<uint8_t> encode(const ShareableName &name)
{
    std::vector<uint8_t> bytes;
    Writer w(bytes);
    w.value(name.kind), w.value(name.mailbox), w.value(name.key), w.string(name.lease);
    return bytes;
}

// Nothing where it is none.
inline std::optional<ShareableName> decode_shareable(std::string_view bytes)
{
    Reader r(bytes.data(), bytes.size());
    ShareableName name;
    name.kind = r.value<ShareableName::Kind>();
    name.mailbox = r.value<uint64_t>();
    name.key = r.value<ShareKey>();
    name.lease = r.string();
    const bool sound = name.kind == ShareableName::Kind::memory ||
                       name.kind == ShareableName::Kind::pool;
    return sound && r.at_end() && bytes.size() <= kMaxShareableName ? std::optional(name)
                                                                    : std::nullopt;
}

// What the call that makes a descriptor says: that the program wants one, or that all processes
// have closed one.
enum class ShareStep : uint32_t { give, closed };

}  // namespace rgpu::wire
