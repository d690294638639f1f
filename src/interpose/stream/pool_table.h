// SPDX-License-Identifier: Apache-2.0
// The pools of one server that are divided up here, and what is known of the streams that free
// their memory. What pools.h promises, pool by pool.
//
// Any thread. Failure: allocate() answers as cuMemAllocAsync does, all else does what it can.
//
// Memory of the process: what throws std::bad_alloc has changed no table. What says noexcept needs
// no memory, or does later what it cannot do now.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "interpose/link/server_session.h"
#include "interpose/state/handles.h"
#include "interpose/state/pool_memory.h"
#include "interpose/state/stream_order.h"
#include "util/spare_nodes.h"

namespace rgpu::interpose::pools {

// A stream as a call names it.
struct Place {
    StreamOrder::Stream stream = 0;
    HandleId id = 0, context = 0;
};

// Nothing for a default stream without a context.
std::optional<Place> place_of(HandleId stream);

struct Pool {
    int device = 0;  // the server's number of it
    PoolMemory memory;
    uint64_t threshold = 0;
    bool follows_events = true, asks = true, adds_waits = true;  // as its attributes say
    uint64_t asked_at = 0;  // so much it had when it was asked last which streams have come past
    bool driver_gave = false, is_destroyed = false;
};
using PoolRef = std::shared_ptr<Pool>;

// Memory that is given out, by its address.
struct Live {
    Pool *pool = nullptr;
    uint64_t bytes = 0;
    HandleId context = 0;
};
using Lives = std::map<uint64_t, Live>;

// A stream that has freed memory, or may do so.
struct Freeing {
    HandleId id = 0, context = 0;
    StreamOrder::Moment newest = 0;
    // Recorded behind what it freed until `fenced`.
    CUevent fence = nullptr;
    StreamOrder::Moment fenced = 0;
    bool ended = false;
};

// Whole pages that nothing uses, by device.
using Pages = std::list<std::pair<int, std::list<PoolMemory::Range>>>;

// The pools of one server.
class PoolTable {
public:
    std::optional<CUresult> allocate(ServerSession &, std::optional<CUmemoryPool>, const Place &,
                                     CUdeviceptr &, size_t bytes);
    // The driver gives some from the pool, too.
    void driver_gives(std::optional<CUmemoryPool>, const Place &);
    bool has(CUdeviceptr base);
    // A free takes three steps. First what may lack memory; it is done where memory was allocated
    // in the stream. Then the address is known no more; empty where it was not. Then its memory is
    // free.
    void expect(const Place &);
    Lives::node_type claim(CUdeviceptr base) noexcept;
    void free(ServerSession &, Lives::node_type, const Place &) noexcept;

    void created(HandleId, int device);
    void destroyed(ServerSession &, HandleId) noexcept;
    void is_default(HandleId, int device);
    void is_present(HandleId, int device);
    // set_present() needs no memory for a device that is expected.
    void expect_device(int device);
    void set_present(HandleId, int device);
    void note_attribute(HandleId, CUmemPool_attribute, uint64_t value);
    std::optional<uint64_t> attribute(HandleId, CUmemPool_attribute, bool &alone);
    bool trim(ServerSession &, HandleId, size_t keep);

    // Pages that nothing uses, of all pools, whatever their thresholds. Whether there were any.
    bool give_back(ServerSession &);
    bool look(ServerSession &);

    StreamOrder::Seen behind_stream(ServerSession &, const Place &);
    StreamOrder::Seen behind_event(HandleId);
    StreamOrder::Seen behind_context(HandleId);
    void reached(ServerSession &, HandleId event, const StreamOrder::Seen &) noexcept;
    // Where it throws nothing is known of the event.
    void records(HandleId event, std::optional<Place>);
    void waits(const Place &, HandleId event, const StreamOrder::Seen &);
    void stream_ends(ServerSession &, const Place &);
    void wait_for_context(ServerSession &, HandleId);
    void forget_context(ServerSession &, HandleId) noexcept;

private:
    struct Device {
        PoolRef first;             // its default pool, if it was used
        bool has_another = false;  // that is the present one
        PoolRef present;           // null: one of the driver's
    };
    using Streams = std::map<StreamOrder::Stream, Freeing>;

    PoolRef add(int device);
    PoolRef default_pool(int device);
    PoolRef find(std::optional<CUmemoryPool>, const Place &);
    bool should_ask(Pool &, size_t bytes) const;
    void expect_free(const Place &);
    uint64_t take(Pool &, const Place &, size_t bytes);
    void note(uint64_t base, const Live &) noexcept;
    std::optional<CUresult> grow(ServerSession &, Pool &, size_t bytes, CUdeviceptr &);
    bool add_waits(ServerSession &, Pool &, const Place &);
    bool make_fence(StreamOrder::Stream, CUevent &);
    bool fence(ServerSession &, StreamOrder::Stream);
    std::optional<Freeing> fenced(ServerSession &, StreamOrder::Stream);
    bool poll(ServerSession &);
    void over(StreamOrder::Stream, StreamOrder::Moment) noexcept;
    void drop_useless() noexcept;
    bool is_of(HandleId context);
    void watch(ServerSession &, std::unique_lock<std::mutex> &);
    Pages surplus(std::optional<uint64_t> keep = {}) noexcept;
    void send(ServerSession &, Pages) noexcept;

    std::mutex fencing_;  // one thread records fences at a time; taken before the other one
    std::mutex mutex_;
    std::vector<PoolRef> all_;  // destroyed ones, too, as what they gave stays
    std::map<HandleId, PoolRef> by_handle_;
    std::map<int, Device> devices_;
    Lives live_;
    SpareNodes<Lives> spares_;
    StreamOrder order_;  // expects all of freeing_
    Streams freeing_;
    Streams useless_;  // streams that are no more, whose fences are to be destroyed
    Pages unsent_;     // that are to go back, as soon as there is memory to say so
    bool watched_ = false, was_used_ = false;
    unsigned looks_ = 0;
};

// The server's.
PoolTable &table_of(const ServerSession &);

}  // namespace rgpu::interpose::pools
