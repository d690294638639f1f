// SPDX-License-Identifier: Apache-2.0
// A client: all that the interposer keeps of its program from one call to the next. A process has
// one. A unit test makes a second one, to see that nothing of the one is in the other.
//
// Each file keeps its own part, of a type that only it knows, and gets it here by name. A part is
// made at its first use, also before main(), and is never destroyed, as a client is not: programs
// call CUDA while static objects are destroyed. Making one takes no lock, which a thread could hold
// while another forks: threads that come at the same time each make one, and one of these stays.
//
// In the child of a fork the client is the parent's, as it was; process.cc makes anew what a child
// must not have.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rgpu::interpose {

// The parts, by sub-folder. Each name belongs to one type (t/t0011-one-place.t).
enum class Part : uint8_t {
    // state
    start,
    servers,
    handles,
    captures,
    families,
    event_watch,
    device_hull,
    ranges,
    address_space,
    placed_memory,
    descriptors,
    // mirror
    shared_memory,
    kernel_watch,
    host_pools,
    host_pieces,
    // stream
    read_ahead,
    host_functions,
    pools,
    synchronous_copies,
    // span
    side_streams,
    relayed_work,
    failed_streams,
    // code
    launch_shapes,
    // graph
    node_memory,
    launch_plans,
    host_copies,
    kernel_updates,
    user_objects,
    // nccl
    nccl,
    // api
    advice,
    context_uses,
    function_facts,
    functions_by_name,
    managed_variables,
    memory_info,
    primary_contexts,
    primary_retained,
    stream_priorities,
    kCount
};

// Numbers that calls look at before anything else; 0 at first.
enum class Counter : uint8_t {
    several_servers,    // 1: the lease names several
    blocks,             // of memory that kernels and the program share, and registrations
    mirrored_blocks,    // those with memory on the device
    host_pools,         // 1: there was one
    events_elsewhere,   // 1: events are recorded by others than cuEventRecord
    streams_pass_by,    // 1: there was a stream that does not wait for the default stream
    written_elsewhere,  // 1: others may write this program's device memory
    relayed_to_host,    // copies to the host under way, between servers
    any_failed_stream,  // 1: such a copy failed
    descriptors,        // 1: memory was given to other processes by descriptors
    pools,              // 1: there was memory of pools that are divided up here
    exported,           // 1: other processes may open memory of this program
    graph_memory,       // 1: a graph allocates
    launch_limits,      // goes up when known limits of launches are no longer true
    kCount
};

class Client {
public:
    constexpr Client() = default;
    Client(const Client &) = delete;
    Client &operator=(const Client &) = delete;

    // The process's.
    static Client &current() { return *current_.load(std::memory_order_relaxed); }
    // For tests: `client` is the process's from now on. No thread is in a call then, nor in the
    // background of the one before, and each thread makes calls of one client only: what is
    // thread-local, its current context above all, is in none.
    static void make_current(Client &client) { current_ = &client; }

    // The part of this name, which is a T. Any thread.
    template <class T> T &part(Part name)
    {
        std::atomic<void *> &slot = parts_[static_cast<size_t>(name)];
        void *made = slot.load(std::memory_order_acquire);
        return *static_cast<T *>(made ? made : make<T>(slot));
    }
    std::atomic<uint32_t> &counter(Counter name) { return counters_[static_cast<size_t>(name)]; }

private:
    template <class T> [[gnu::noinline]] static void *make(std::atomic<void *> &slot)
    {
        T *mine = new T;
        void *made = nullptr;
        if (slot.compare_exchange_strong(made, mine, std::memory_order_acq_rel)) return mine;
        delete mine;
        return made;
    }

    static std::atomic<Client *> current_;

    std::array<std::atomic<void *>, static_cast<size_t>(Part::kCount)> parts_{};
    std::array<std::atomic<uint32_t>, static_cast<size_t>(Counter::kCount)> counters_{};
};

// The process's part of this name.
template <class T> T &client_part(Part name) { return Client::current().part<T>(name); }
inline std::atomic<uint32_t> &client_counter(Counter name)
{
    return Client::current().counter(name);
}

}  // namespace rgpu::interpose
