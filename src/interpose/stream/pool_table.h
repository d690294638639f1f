// SPDX-License-Identifier: Apache-2.0
// The pools of one server that are divided up here, and what is known of the streams that free
// their memory. What pools.h promises, pool by pool.
//
// Any thread. Failure: allocate() answers as cuMemAllocAsync does, all else does what it can.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "interpose/link/server_session.h"
#include "interpose/state/handles.h"
#include "interpose/state/pool_memory.h"
#include "interpose/state/stream_order.h"

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

struct Live {
    Pool *pool = nullptr;
    uint64_t bytes = 0;
    HandleId context = 0;
};

// A stream that has freed memory.
struct Freeing {
    HandleId id = 0, context = 0;
    StreamOrder::Moment newest = 0;
    // Recorded behind what it freed until `fenced`.
    CUevent fence = nullptr;
    StreamOrder::Moment fenced = 0;
    bool ended = false;
};

// Whole pages that nothing uses, of a device.
using Pages = std::vector<std::pair<int, PoolMemory::Range>>;

// The pools of one server.
class PoolTable {
public:
    std::optional<CUresult> allocate(ServerSession &, std::optional<CUmemoryPool>, const Place &,
                                     CUdeviceptr &, size_t bytes);
    // The driver gives some from the pool, too.
    void driver_gives(std::optional<CUmemoryPool>, const Place &);
    bool has(CUdeviceptr base);
    bool free(ServerSession &, CUdeviceptr base, const Place &);

    void created(HandleId, int device);
    void destroyed(ServerSession &, HandleId);
    void is_default(HandleId, int device);
    void is_present(HandleId, int device);
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
    void reached(ServerSession &, HandleId event, const StreamOrder::Seen &);
    void records(HandleId event, std::optional<Place>);
    void waits(const Place &, HandleId event, const StreamOrder::Seen &);
    void stream_ends(ServerSession &, const Place &);
    void forget_context(ServerSession &, HandleId);

private:
    PoolRef add(int device);
    PoolRef default_pool(int device);
    PoolRef find(std::optional<CUmemoryPool>, const Place &);
    bool should_ask(Pool &, size_t bytes) const;
    uint64_t take(Pool &, const Place &, size_t bytes);
    std::optional<CUresult> grow(ServerSession &, Pool &, size_t bytes, CUdeviceptr &);
    bool add_waits(ServerSession &, Pool &, const Place &);
    bool fence(ServerSession &, StreamOrder::Stream);
    bool poll(ServerSession &);
    void over(const StreamOrder::View &);
    void drop_useless();
    void watch(ServerSession &, std::unique_lock<std::mutex> &);
    Pages surplus(std::optional<uint64_t> keep = {});
    static void send(ServerSession &, const Pages &);

    std::mutex fencing_;  // one thread records fences at a time; taken before the other one
    std::mutex mutex_;
    std::vector<PoolRef> all_;  // destroyed ones, too, as what they gave stays
    std::map<HandleId, PoolRef> by_handle_;
    std::map<int, PoolRef> defaults_, present_;  // null: one of the driver's
    std::unordered_map<uint64_t, Live> live_;
    StreamOrder order_;
    std::map<StreamOrder::Stream, Freeing> freeing_;
    std::vector<CUevent> useless_;  // fences of streams that are no more
    bool watched_ = false, was_used_ = false;
    unsigned looks_ = 0;
};

// The server's.
PoolTable &table_of(const ServerSession &);

}  // namespace rgpu::interpose::pools
