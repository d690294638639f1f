// SPDX-License-Identifier: Apache-2.0
#include "interpose/stream/pools.h"

#include <cstring>
#include <new>

#include "interpose/link/waiting.h"
#include "interpose/state/capture.h"
#include "interpose/state/client.h"
#include "interpose/state/contexts.h"
#include "interpose/state/ranges.h"
#include "interpose/state/servers.h"
#include "interpose/stream/pool_table.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"
#include "wire/bands.h"

namespace rgpu::interpose::pools {

namespace {

// More than any server has: the driver knows what to say.
constexpr uint64_t kMostBytes = wire::kPlacedBytes / 2;

// Whether there ever was memory of pools: other programs pay nothing.
std::atomic<uint32_t> &in_use() { return client_counter(Counter::pools); }

// The server of the calls, if it leaves pools to be divided up here.
ServerSession *here_divided()
{
    ServerSession *const s = session();
    return s && s->takes_pools() ? s : nullptr;
}

// The same where it has been done.
ServerSession *in_use_here() { return in_use() ? here_divided() : nullptr; }

std::optional<Place> place_named(CUstream stream)
{
    HandleId id = 0;
    return detail::id_in(stream, id) ? std::nullopt : place_of(id);
}

// What is only to be known: where memory is lacking it is not known.
template <class What> void if_there_is_memory(What what)
{
    try {
        what();
    } catch (const std::bad_alloc &) {
        // Others ask the server, or wait for longer.
    }
}

}  // namespace

std::optional<CUresult> allocate(CUdeviceptr *out, size_t bytes, std::optional<CUmemoryPool> pool,
                                 CUstream stream)
{
    ServerSession *const s = here_divided();
    const auto place = s ? place_named(stream) : std::nullopt;
    if (!place || !out || !bytes || (place->id && is_captured(place->id))) return {};
    if (bytes > kMostBytes || every_call_waits()) {
        table_of(*s).driver_gives(pool, *place);
        return {};
    }
    PoolTable &pools = table_of(*s);
    in_use() = 1;
    return pools.allocate(*s, pool, *place, *out, bytes);
}

std::optional<CUresult> free_behind(CUdeviceptr base, CUstream stream)
{
    ServerSession *const s = in_use_here();
    if (!s || !table_of(*s).has(base)) return {};
    HandleId id = 0;
    if (CUresult r = s->state()) return r;
    if (CUresult r = detail::id_in(stream, id)) return r;
    // A graph frees what a graph allocates.
    if (is_captured(id)) return CUDA_ERROR_INVALID_VALUE;
    const auto place = place_of(id);
    if (!place) return context_state();
    PoolTable &pools = table_of(*s);
    pools.expect(*place);
    auto live = pools.claim(base);
    if (!live) return CUDA_ERROR_INVALID_VALUE;  // another thread has freed it
    forget_allocation(base);
    pools.free(*s, std::move(live), *place);
    return CUDA_SUCCESS;
}

std::optional<CUresult> free(CUdeviceptr base)
{
    const auto r = free_behind(base, CU_STREAM_LEGACY);
    if (r != CUDA_SUCCESS || any_capture()) return r;  // to wait would end a capture
    CUresult waited = CUDA_SUCCESS;
    if_there_is_memory([&] { waited = own::cuCtxSynchronize(); });
    return waited;
}

namespace {

// Calls `what` with the pools of the calls' server and the number of a handle.
template <class What> auto with(CUmemoryPool pool, What what)
    -> decltype(what(std::declval<ServerSession &>(), std::declval<PoolTable &>(), HandleId{}))
{
    ServerSession *const s = here_divided();
    const auto id = Handles::get().id(pool);
    using Answer = decltype(what(*s, table_of(*s), *id));
    if (!s || !id || !*id) return Answer();
    return what(*s, table_of(*s), *id);
}

}  // namespace

void created(CUmemoryPool pool, const CUmemPoolProps &p)
{
    // What has a form for other processes, a limit or a use of its own is the driver's.
    CUmemPoolProps other = p, none;
    other.allocType = CU_MEM_ALLOCATION_TYPE_INVALID, other.location = {};
    memset(&none, 0, sizeof none);
    if (p.location.type != CU_MEM_LOCATION_TYPE_DEVICE || memcmp(&other, &none, sizeof none) != 0)
        return;
    // One that cannot be noted is the driver's.
    with(pool, [&](ServerSession &, PoolTable &pools, HandleId id) {
        if_there_is_memory([&] { pools.created(id, to_wire(p.location.id)); });
    });
}

void destroyed(HandleId pool)
{
    if (ServerSession *const s = here_divided()) table_of(*s).destroyed(*s, pool);
}

void is_default(CUmemoryPool pool, CUdevice device)
{
    with(pool, [&](ServerSession &, PoolTable &pools, HandleId id) {
        return pools.is_default(id, to_wire(device));
    });
}

void is_present(CUmemoryPool pool, CUdevice device)
{
    with(pool, [&](ServerSession &, PoolTable &pools, HandleId id) {
        return pools.is_present(id, to_wire(device));
    });
}

void expect_device(CUdevice device)
{
    if (ServerSession *const s = here_divided()) table_of(*s).expect_device(to_wire(device));
}

void set_present(CUmemoryPool pool, CUdevice device)
{
    with(pool, [&](ServerSession &, PoolTable &pools, HandleId id) {
        return pools.set_present(id, to_wire(device));
    });
}

void note_attribute(CUmemoryPool pool, CUmemPool_attribute which, uint64_t value)
{
    with(pool, [&](ServerSession &, PoolTable &pools, HandleId id) {
        return pools.note_attribute(id, which, value);
    });
}

std::optional<uint64_t> attribute(CUmemoryPool pool, CUmemPool_attribute which, bool &alone)
{
    return with(pool, [&](ServerSession &, PoolTable &pools, HandleId id) {
        return pools.attribute(id, which, alone);
    });
}

bool trim(CUmemoryPool pool, size_t keep)
{
    return with(pool, [&](ServerSession &s, PoolTable &pools, HandleId id) {
        return pools.trim(s, id, keep);
    });
}

Progress Progress::of_stream(HandleId stream)
{
    Progress p;
    ServerSession *const s = in_use_here();
    if (const auto place = s ? place_of(stream) : std::nullopt)
        if_there_is_memory([&] { p.seen_ = table_of(*s).behind_stream(*s, *place); });
    return p;
}

Progress Progress::of_event(HandleId event)
{
    Progress p;
    if (ServerSession *const s = in_use_here(); s && event >= calls::kFirstHandle) {
        p.event_ = event;
        if_there_is_memory([&] { p.seen_ = table_of(*s).behind_event(event); });
    }
    return p;
}

Progress Progress::of_context(HandleId context)
{
    Progress p;
    if (ServerSession *const s = in_use_here())
        if_there_is_memory([&] { p.seen_ = table_of(*s).behind_context(context); });
    return p;
}

void Progress::reached()
{
    if (!seen_.record) return;
    if (ServerSession *const s = in_use_here()) table_of(*s).reached(*s, event_, seen_);
}

void records(HandleId event, HandleId stream)
{
    ServerSession *const s = in_use_here();
    if (s && event >= calls::kFirstHandle)
        if_there_is_memory([&] {
            table_of(*s).records(event, is_captured(stream) ? std::nullopt : place_of(stream));
        });
}

void records_nothing(HandleId event)
{
    ServerSession *const s = in_use_here();
    if (s && event >= calls::kFirstHandle) table_of(*s).records(event, {});
}

StreamWait::StreamWait(CUstream stream, CUevent event)
{
    ServerSession *const s = in_use_here();
    if (!s || detail::id_in(stream, stream_) || detail::id_in(event, event_) ||
        event_ < calls::kFirstHandle || is_captured(stream_))
        return;
    if_there_is_memory([&] { seen_ = table_of(*s).behind_event(event_); });
}

void StreamWait::sent()
{
    if (!seen_.record) return;
    if (const auto place = place_of(stream_))
        if_there_is_memory([&] { table_of(*session()).waits(*place, event_, seen_); });
}

void stream_ends(CUstream stream)
{
    ServerSession *const s = in_use_here();
    if (const auto place = s ? place_named(stream) : std::nullopt)
        table_of(*s).stream_ends(*s, *place);
}

namespace {

// The server of a context, where pools are in use there.
ServerSession *in_use_at(HandleId context)
{
    ServerSession *const s = in_use() ? session_at(Handles::get().at(context)->server) : nullptr;
    return s && s->takes_pools() ? s : nullptr;
}

}  // namespace

void context_ends(HandleId context)
{
    if (ServerSession *const s = in_use_at(context)) table_of(*s).wait_for_context(*s, context);
    forget_context(context);
}

void forget_context(HandleId context) noexcept
{
    if (ServerSession *const s = in_use_at(context)) table_of(*s).forget_context(*s, context);
}

}  // namespace rgpu::interpose::pools
