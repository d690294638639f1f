// SPDX-License-Identifier: Apache-2.0
#include "interpose/stream/pool_table.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "interpose/base/guard.h"
#include "interpose/state/capture.h"
#include "interpose/state/contexts.h"
#include "interpose/state/idle.h"
#include "interpose/state/placed_memory.h"
#include "interpose/state/servers.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"
#include "wire/band.h"
#include "wire/bands.h"

namespace rgpu::interpose::pools {

namespace {

using namespace std::chrono_literals;
using Stream = StreamOrder::Stream;
using Moment = StreamOrder::Moment;
using View = StreamOrder::View;

// Memory is lacking, and streams have freed some that they have not come to yet.
constexpr auto kBetweenTries = 10ms;
constexpr unsigned kMostTries = 1000;
// How often in a row it is looked in vain whether streams have come past what they freed.
constexpr unsigned kMostLooks = 100;
// A pool that grows by so much, while other streams have freed some of it, asks whether they have
// come past that.
constexpr uint64_t kGrowsAsking = uint64_t{16} << 20;
// Numbers that are never given to another stream, or event: those of handles are.
constexpr uint64_t kLegacy = uint64_t{1} << 63;
// Nodes for what is given out that lie ready.
constexpr size_t kMostSpare = 64;
uint64_t lasting(HandleId id) { return uint64_t{Handles::get().at(id)->stamp} << 32 | id; }

}  // namespace

std::optional<Place> place_of(HandleId id)
{
    if (id >= calls::kFirstHandle) return Place{lasting(id), id, Handles::get().at(id)->parent};
    const HandleId context = current_context();
    if (!context || context_state()) return {};
    return Place{kLegacy | lasting(context), calls::kNoHandle, context};
}

PoolTable &table_of(const ServerSession &s)
{
    return client_part<EachServer<PoolTable>>(interpose::Part::pools).at(s.index());
}

// --- pools

PoolRef PoolTable::add(int device)
{
    all_.push_back(std::make_shared<Pool>());
    all_.back()->device = device;
    return all_.back();
}

PoolRef PoolTable::default_pool(int device)
{
    PoolRef &pool = devices_[device].first;
    if (!pool) pool = add(device);
    return pool;
}

// Null for one that the driver divides up.
PoolRef PoolTable::find(std::optional<CUmemoryPool> handle, const Place &place)
{
    if (handle) {
        const auto id = Handles::get().id(*handle);
        const auto known = id ? by_handle_.find(*id) : by_handle_.end();
        return known == by_handle_.end() ? nullptr : known->second;
    }
    const int device = to_wire(Handles::get().at(place.context)->device);
    const auto d = devices_.find(device);
    return d != devices_.end() && d->second.has_another ? d->second.present : default_pool(device);
}

void PoolTable::created(HandleId id, int device)
{
    std::lock_guard lock(mutex_);
    const auto known = by_handle_.try_emplace(id).first;
    Unless added([&] { by_handle_.erase(known); });
    known->second = add(device);
    added.keep();
}

void PoolTable::destroyed(ServerSession &s, HandleId id) noexcept
{
    Pages pages;
    {
        std::lock_guard lock(mutex_);
        const auto known = by_handle_.find(id);
        if (known == by_handle_.end()) return;
        {
            const PoolRef pool = std::move(known->second);
            by_handle_.erase(known);
            for (auto &[number, d] : devices_)
                if (d.has_another && d.present == pool) d.has_another = false, d.present.reset();
            pool->threshold = 0, pool->is_destroyed = true;
        }
        pages = surplus();
    }
    send(s, std::move(pages));
}

void PoolTable::is_default(HandleId id, int device)
{
    std::lock_guard lock(mutex_);
    by_handle_[id] = default_pool(device);
}

// A handle that was not seen before is the default pool's: others were created, or set.
void PoolTable::is_present(HandleId id, int device)
{
    std::lock_guard lock(mutex_);
    const auto d = devices_.find(device);
    if (d == devices_.end() || !d->second.has_another) by_handle_[id] = default_pool(device);
}

void PoolTable::expect_device(int device)
{
    std::lock_guard lock(mutex_);
    devices_.try_emplace(device);
}

void PoolTable::set_present(HandleId id, int device)
{
    std::lock_guard lock(mutex_);
    const auto known = by_handle_.find(id);
    Device &d = devices_[device];
    d.has_another = true;
    d.present = known == by_handle_.end() ? nullptr : known->second;
}

void PoolTable::note_attribute(HandleId id, CUmemPool_attribute which, uint64_t value)
{
    std::lock_guard lock(mutex_);
    const auto known = by_handle_.find(id);
    if (known == by_handle_.end()) return;
    Pool &pool = *known->second;
    switch (which) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: pool.follows_events = value; return;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: pool.asks = value; return;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: pool.adds_waits = value; return;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: pool.threshold = value; return;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: pool.memory.reset_used_high(); return;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: pool.memory.reset_reserved_high(); return;
    default: return;
    }
}

std::optional<uint64_t> PoolTable::attribute(HandleId id, CUmemPool_attribute which, bool &alone)
{
    std::lock_guard lock(mutex_);
    const auto known = by_handle_.find(id);
    if (known == by_handle_.end()) return {};
    const PoolMemory &memory = known->second->memory;
    alone = !known->second->driver_gave;
    switch (which) {
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: return memory.used().now;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: return memory.used().high;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: return memory.reserved().now;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: return memory.reserved().high;
    default: return {};
    }
}

bool PoolTable::trim(ServerSession &s, HandleId id, size_t keep)
{
    Pages pages(1);
    bool is_all = false;
    {
        std::lock_guard lock(mutex_);
        const auto known = by_handle_.find(id);
        if (known == by_handle_.end()) return false;
        pages.front() = {known->second->device, known->second->memory.release(keep)};
        is_all = !known->second->driver_gave;
    }
    send(s, std::move(pages));
    return is_all;
}

// --- allocations

// A free in the stream will need no memory. With the mutex held.
void PoolTable::expect_free(const Place &place)
{
    if (freeing_.contains(place.stream)) return;
    order_.expect(place.stream);
    freeing_.try_emplace(place.stream, Freeing{place.id, place.context, 0, nullptr, 0, false});
}

void PoolTable::expect(const Place &place)
{
    std::lock_guard lock(mutex_);
    expect_free(place);
}

// There is a spare node. With the mutex held.
void PoolTable::note(uint64_t base, const Live &live) noexcept
{
    auto [node] = spares_.take();
    node.key() = base, node.mapped() = live;
    live_.insert(std::move(node));
}

// What the stream may have now, of what the pool has.
uint64_t PoolTable::take(Pool &pool, const Place &place, size_t bytes)
{
    if (const uint64_t address = pool.memory.take(bytes, place.stream)) return address;
    if (!pool.follows_events) return 0;
    for (const auto &[other, until] : order_.before(place.stream))
        if (const uint64_t address = pool.memory.take_from(bytes, other, until)) return address;
    return 0;
}

// Whether other streams may have come past what the pool needs. With the mutex held.
bool PoolTable::should_ask(Pool &pool, size_t bytes) const
{
    const uint64_t has = pool.memory.reserved().now;
    if (!pool.asks || pool.memory.waiting() < bytes || has < pool.asked_at + kGrowsAsking)
        return false;
    pool.asked_at = has;
    return true;
}

std::optional<CUresult> PoolTable::grow(ServerSession &s, Pool &pool, size_t bytes,
                                        CUdeviceptr &out)
{
    const uint64_t whole = wire::Band::rounded(bytes, PoolMemory::kPage);
    Pages got(1, {pool.device, {PoolMemory::Range{0, whole}}});
    uint64_t begin = 0;
    const auto r = placed::take_pages(s, pool.device, whole, begin);
    if (!r || *r) return r;
    got.front().second.front().begin = begin;
    std::lock_guard lock(mutex_);
    Unless taken([&]() noexcept { unsent_.splice(unsent_.end(), got); });
    const auto kind = whole > wire::kMostPlaced ? PoolMemory::Kind::piece : PoolMemory::Kind::pages;
    spares_.reserve(1);
    pool.memory.grow({begin, whole}, kind, bytes);
    note(begin, {&pool, bytes, current_context()});
    taken.keep();
    out = begin;
    return r;
}

std::optional<CUresult> PoolTable::allocate(ServerSession &s, std::optional<CUmemoryPool> handle,
                                            const Place &place, CUdeviceptr &out, size_t bytes)
{
    PoolRef pool;
    bool waits = false;
    for (unsigned tries = 0;; tries++) {
        bool asks;
        {
            std::lock_guard lock(mutex_);
            was_used_ = true;
            if (!pool && !(pool = find(handle, place))) return {};
            expect_free(place);
            spares_.reserve(1);
            if (const uint64_t at = take(*pool, place, bytes)) {
                note(at, {pool.get(), bytes, current_context()});
                out = at;
                return CUDA_SUCCESS;
            }
            asks = should_ask(*pool, bytes);
        }
        if (asks && poll(s)) continue;
        const auto r = grow(s, *pool, bytes, out);
        if (r == CUDA_SUCCESS) return r;
        std::unique_lock lock(mutex_);
        if (!r) pool->driver_gave = true;
        if (r != CUDA_ERROR_OUT_OF_MEMORY) return r;
        const bool may_wait = pool->adds_waits && !std::exchange(waits, true);
        const bool more_may_come = order_.any() && tries < kMostTries;
        lock.unlock();
        if (may_wait && add_waits(s, *pool, place)) continue;
        if (!more_may_come) return r;
        if (!poll(s)) std::this_thread::sleep_for(kBetweenTries);
    }
}

void PoolTable::driver_gives(std::optional<CUmemoryPool> handle, const Place &place)
{
    std::lock_guard lock(mutex_);
    if (const PoolRef pool = find(handle, place)) pool->driver_gave = true;
}

bool PoolTable::has(CUdeviceptr base)
{
    std::lock_guard lock(mutex_);
    return live_.contains(base);
}

Lives::node_type PoolTable::claim(CUdeviceptr base) noexcept
{
    std::lock_guard lock(mutex_);
    return live_.extract(base);
}

void PoolTable::free(ServerSession &s, Lives::node_type live, const Place &place) noexcept
{
    std::unique_lock lock(mutex_);
    try {
        expect_free(place);
    } catch (const std::bad_alloc &) {
        // The stream has ended meanwhile. The memory stays given out until the context ends.
        live_.insert(std::move(live));
        return;
    }
    const Moment now = order_.freed(place.stream);
    freeing_.find(place.stream)->second.newest = now;
    live.mapped().pool->memory.free({live.key(), live.mapped().bytes}, place.stream, now);
    spares_.put(std::move(live), kMostSpare);
    was_used_ = true;
    watch(s, lock);
}

// --- what is over

// False where there is none.
bool PoolTable::make_fence(Stream stream, CUevent &event)
{
    if (remote<CallId::cuEventCreate>(&event, CU_EVENT_DISABLE_TIMING)) return false;
    {
        std::lock_guard lock(mutex_);
        const auto at = freeing_.find(stream);
        if (at != freeing_.end()) return at->second.fence = event, true;
    }
    remote<CallId::cuEventDestroy_v2>(event);
    return false;
}

// An event behind all that the stream freed. An own one: with it the stream has work of its own
// there, which waits for the default stream's as a free does. False where there is none.
bool PoolTable::fence(ServerSession &s, Stream stream)
{
    std::lock_guard fencing(fencing_);
    Freeing f;
    {
        std::lock_guard lock(mutex_);
        const auto at = freeing_.find(stream);
        if (at == freeing_.end()) return false;
        f = at->second;
        if (f.fenced == f.newest || f.ended) return f.fence != nullptr;
    }
    // Work in the default stream would break a capture of any other.
    if (f.id ? is_captured(f.id) : any_capture()) return false;
    const At there(s.index(), f.context);
    if (!f.fence && !make_fence(stream, f.fence)) return false;
    if (remote<CallId::cuEventRecord>(f.fence, f.id ? Handles::get().handle<CUstream>(f.id)
                                                    : CU_STREAM_LEGACY))
        return false;
    std::lock_guard lock(mutex_);
    const auto at = freeing_.find(stream);
    if (at == freeing_.end()) return false;
    at->second.fenced = f.newest;
    return true;
}

// What the stream freed, once there is a fence behind it. Nothing: there is none.
std::optional<Freeing> PoolTable::fenced(ServerSession &s, Stream stream)
{
    if (!fence(s, stream)) return {};
    std::lock_guard lock(mutex_);
    const auto at = freeing_.find(stream);
    return at == freeing_.end() ? std::nullopt : std::optional(at->second);
}

// With the mutex held.
void PoolTable::over(Stream stream, Moment until) noexcept
{
    bool waits = false;
    for (const PoolRef &pool : all_) {
        pool->memory.over(stream, until);
        waits = waits || pool->memory.waits_for(stream);
    }
    const auto f = freeing_.find(stream);
    if (waits || f == freeing_.end()) return;
    order_.settled(stream);
    if (!f->second.ended) return;
    order_.forget_stream(stream);
    auto gone = freeing_.extract(f);
    if (gone.mapped().fence) useless_.insert(std::move(gone));
}

// Asks which fences are reached, of streams that others may want memory of. Whether any is.
bool PoolTable::poll(ServerSession &s)
{
    std::vector<Stream> pending;
    {
        std::lock_guard lock(mutex_);
        pending.assign(order_.pending().begin(), order_.pending().end());
    }
    bool any = false;
    for (const Stream stream : pending) {
        const auto f = fenced(s, stream);
        if (!f) continue;
        const At there(s.index(), f->context);
        if (remote<CallId::cuEventQuery>(f->fence)) continue;
        std::lock_guard lock(mutex_);
        over(stream, f->fenced);
        any = true;
    }
    drop_useless();
    return any;
}

void PoolTable::drop_useless() noexcept
{
    Streams useless;
    {
        std::lock_guard lock(mutex_);
        useless.swap(useless_);
    }
    try {
        for (; !useless.empty(); useless.erase(useless.begin()))
            remote<CallId::cuEventDestroy_v2>(useless.begin()->second.fence);
    } catch (const std::exception &) {
        std::lock_guard lock(mutex_);
        useless_.merge(useless);
    }
}

// The stream waits for all others that have freed memory of the pool: it may have that then. False
// where there are none.
bool PoolTable::add_waits(ServerSession &s, Pool &pool, const Place &place)
{
    std::vector<Stream> others;
    {
        std::lock_guard lock(mutex_);
        for (const Stream other : order_.pending())
            if (other != place.stream && pool.memory.waits_for(other)) others.push_back(other);
    }
    bool any = false;
    for (const Stream other : others) {
        const auto f = fenced(s, other);
        if (!f) continue;
        const At there(s.index(), place.context);
        if (remote<CallId::cuStreamWaitEvent>(place.id ? Handles::get().handle<CUstream>(place.id)
                                                       : CU_STREAM_LEGACY,
                                              f->fence, 0u))
            continue;
        std::lock_guard lock(mutex_);
        order_.waits(place.stream, {{other, f->fenced}});
        any = true;
    }
    return any;
}

// What nothing uses, beyond the pools' thresholds or what is to be kept; what lacks memory stays.
// With the mutex held.
Pages PoolTable::surplus(std::optional<uint64_t> keep) noexcept
{
    Pages pages = std::move(unsent_);
    unsent_.clear();
    for (const PoolRef &pool : all_) {
        const uint64_t most = keep.value_or(pool->threshold);
        if (pool->memory.reserved().now <= most) continue;
        try {
            Pages of_pool(1, {pool->device, {}});
            of_pool.front().second = pool->memory.release(most);
            if (!of_pool.front().second.empty()) pages.splice(pages.end(), of_pool);
        } catch (const std::bad_alloc &) {
            break;
        }
    }
    std::erase_if(all_, [](const PoolRef &p) {
        return p->is_destroyed && !p->memory.reserved().now && p.use_count() == 1;
    });
    return pages;
}

// Whoever sends them next sends what cannot be sent now.
void PoolTable::send(ServerSession &s, Pages pages) noexcept
{
    try {
        for (auto &[device, ranges] : pages)
            for (; !ranges.empty(); ranges.pop_front())
                placed::give_pages(s, device, ranges.front().begin, ranges.front().bytes);
    } catch (const std::exception &) {
        std::unique_lock lock(mutex_);
        unsent_.splice(unsent_.end(), pages);
        watch(s, lock);
    }
}

bool PoolTable::give_back(ServerSession &s)
{
    // A question that lacks memory itself would come here again.
    thread_local bool inside = false;
    if (inside) return false;
    inside = true;
    const Unless left([&] { inside = false; });
    poll(s);
    Pages pages;
    {
        std::lock_guard lock(mutex_);
        pages = surplus(0);
    }
    const bool any = !pages.empty();
    send(s, std::move(pages));
    return any;
}

// What streams have come past goes back, though nobody waited for them.
bool PoolTable::look(ServerSession &s)
{
    {
        std::lock_guard lock(mutex_);
        if (std::exchange(was_used_, false)) looks_ = 0;
        const bool wanted = order_.any() || !unsent_.empty();
        if (!wanted || looks_++ >= kMostLooks) return watched_ = false;
    }
    const bool any = poll(s);
    Pages pages;
    {
        std::lock_guard lock(mutex_);
        if (any || !unsent_.empty()) pages = surplus();
    }
    send(s, std::move(pages));
    return true;
}

void PoolTable::watch(ServerSession &s, std::unique_lock<std::mutex> &lock)
{
    looks_ = 0;
    if (std::exchange(watched_, true)) return;
    lock.unlock();
    static constexpr placed::PoolCalls kCalls{
        [](ServerSession &at) { return table_of(at).give_back(at); },
        [](ServerSession &at) { return table_of(at).look(at); }};
    placed::watch_pools(s, kCalls);
}

// --- waits

StreamOrder::Seen PoolTable::behind_stream(ServerSession &s, const Place &place)
{
    if (!fence(s, place.stream)) return {};
    std::lock_guard lock(mutex_);
    const auto at = freeing_.find(place.stream);
    if (at == freeing_.end()) return {};
    View view = order_.before(place.stream);
    view[place.stream] = at->second.fenced;
    return {1, std::move(view)};
}

StreamOrder::Seen PoolTable::behind_event(HandleId event)
{
    if (!idle::may_know_events()) return {};
    std::lock_guard lock(mutex_);
    return order_.seen(lasting(event));
}

StreamOrder::Seen PoolTable::behind_context(HandleId context)
{
    std::lock_guard lock(mutex_);
    View view;
    for (const auto &[stream, f] : freeing_)
        if (f.context == context) StreamOrder::add(view, order_.behind(stream));
    return {!view.empty(), std::move(view)};
}

void PoolTable::reached(ServerSession &s, HandleId event, const StreamOrder::Seen &seen) noexcept
{
    if (!seen.record || (event && !idle::may_know_events())) return;
    Pages pages;
    {
        std::lock_guard lock(mutex_);
        if (event && !order_.is_so(lasting(event), seen)) return;
        for (const auto &[stream, until] : seen.view) over(stream, until);
        pages = surplus();
    }
    send(s, std::move(pages));
}

void PoolTable::records(HandleId event, std::optional<Place> place)
{
    std::lock_guard lock(mutex_);
    if (place)
        order_.records(lasting(event), place->stream);
    else
        order_.forget_event(lasting(event));
}

void PoolTable::waits(const Place &place, HandleId event, const StreamOrder::Seen &seen)
{
    if (!idle::may_know_events()) return;
    std::lock_guard lock(mutex_);
    if (order_.is_so(lasting(event), seen)) order_.waits(place.stream, seen.view);
}

void PoolTable::stream_ends(ServerSession &s, const Place &place)
{
    fence(s, place.stream);
    {
        std::lock_guard lock(mutex_);
        const auto f = freeing_.find(place.stream);
        if (f == freeing_.end()) return;
        f->second.ended = true;
        over(place.stream, 0);
    }
    drop_useless();
}

// Whether there is anything of a context.
bool PoolTable::is_of(HandleId context)
{
    const auto is_there = [&](const auto &entry) { return entry.second.context == context; };
    std::lock_guard lock(mutex_);
    return std::any_of(live_.begin(), live_.end(), is_there) ||
           std::any_of(freeing_.begin(), freeing_.end(), is_there);
}

void PoolTable::wait_for_context(ServerSession &s, HandleId context)
{
    if (!is_of(context)) return;
    const At there(s.index(), context);
    remote<CallId::cuCtxSynchronize>();  // whatever it says, its work is over
}

void PoolTable::forget_context(ServerSession &s, HandleId context) noexcept
{
    Pages pages;
    {
        std::lock_guard lock(mutex_);
        for (auto f = freeing_.begin(); f != freeing_.end();) {
            auto &[stream, freeing] = *f++;  // over() takes it out
            if (freeing.context != context) continue;
            freeing.fence = nullptr, freeing.ended = true;  // its events end with it
            over(stream, freeing.newest);
        }
        std::erase_if(useless_, [&](const auto &f) { return f.second.context == context; });
        std::erase_if(live_, [&](const auto &entry) {
            const auto &[base, live] = entry;
            if (live.context != context) return false;
            live.pool->memory.free({base, live.bytes}, PoolMemory::kNobody, 0);
            return true;
        });
        pages = surplus();
    }
    send(s, std::move(pages));
}

}  // namespace rgpu::interpose::pools
