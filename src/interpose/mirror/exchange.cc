// SPDX-License-Identifier: Apache-2.0
// Bytes that travel between the program's memory and the device's, and when.
//
// Which streams may still work is known from what was posted and what was waited for. Where none
// does, the server may write what lies between changed bytes, too, so that thousands of small
// changes are few copies.
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ranges>

#include "interpose/mirror/state.h"
#include "interpose/state/capture.h"
#include "interpose/state/process.h"
#include "interpose/stub/stub.h"
#include "wire/diff.h"
#include "wire/mirror.h"

namespace rgpu::interpose::mirror {

namespace {

using calls::CallId;
using wire::MirroredRange;
using wire::MirrorStep;

// So much is compared at once: registered memory is read into a buffer of this size.
constexpr size_t kWindow = 1 << 20;

// The default streams of contexts have the same number.
uint64_t stream_key(HandleId stream)
{
    return uint64_t{stream < calls::kFirstHandle ? current_context() : 0} << 32 | stream;
}

// Reads the program's memory where it may be gone (freed without cuMemHostUnregister): false then.
bool read_carefully(uint8_t *to, uintptr_t from, size_t bytes)
{
    iovec here{to, bytes}, there{reinterpret_cast<void *>(from), bytes};
    const ssize_t n = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
    if (n < 0 && errno != EFAULT) {  // forbidden in some sandboxes
        memcpy(to, reinterpret_cast<void *>(from), bytes);
        return true;
    }
    return n == static_cast<ssize_t>(bytes);
}

// What the twin says must get there: where this throws, the next push does it.
CUresult send(Mirror &st, MirroredRange range, bool exclusive, std::vector<uint8_t> &diff)
{
    Unless sent([&] { st.unsent = {range, std::move(diff)}; });
    CUresult r =
        session()->post(CallId::cuMemAllocManaged, travel_context(st), [&](wire::Writer &w) {
            w.value(MirrorStep::push), w.value(range), w.value(uint8_t{exclusive}),
                w.bytes(diff.data(), diff.size());
        });
    sent.keep();
    return r;
}

CUresult send_unsent(Mirror &st)
{
    if (!st.unsent) return CUDA_SUCCESS;
    Unsent u = std::move(*st.unsent);
    st.unsent.reset();
    return send(st, u.range, false, u.diff);
}

// Room for what one step of make_diff() finds, at most: it throws nowhere between bytes that it has
// put into the twin and bytes that it has not.
void make_room(std::vector<uint8_t> &diff) { diff.reserve(wire::kPushBytes + 2 * wire::kDiffUnit); }

CUresult push_span(Mirror &st, const Span &b, bool exclusive)
{
    std::vector<uint8_t> &diff = st.diff;
    for (size_t start = 0; start < b.bytes; start += kWindow) {
        const size_t bytes = std::min(kWindow, b.bytes - start);
        auto now = reinterpret_cast<const uint8_t *>(b.host + start);
        if (b.kind == Kind::registered) {
            st.window.resize(kWindow);
            if (!read_carefully(st.window.data(), b.host + start, bytes)) continue;
            now = st.window.data();
        }
        for (size_t at = 0; at < bytes;) {
            diff.clear();
            make_room(diff);
            at = wire::make_diff(now, b.twin + start, bytes, at, wire::kPushBytes, diff);
            if (diff.empty()) continue;
            if (CUresult r = send(st, {b.device + start, bytes}, exclusive, diff)) return r;
        }
    }
    return CUDA_SUCCESS;
}

// The span that holds these addresses, or null.
const Span *holding(Mirror &st, uint64_t address, uint64_t bytes)
{
    const auto &all = spans(st);
    auto it = std::upper_bound(all.begin(), all.end(), address,
                               [](uint64_t a, const Span &s) { return a < s.device; });
    if (it == all.begin()) return nullptr;
    --it;
    const uint64_t offset = address - it->device;
    return offset < it->bytes && bytes <= it->bytes - offset ? &*it : nullptr;
}

Span part(const Span &s, uint64_t from, uint64_t to)
{
    Span p = s;
    p.device += from, p.host += from, p.twin += from;
    p.bytes = to - from;
    return p;
}

auto flags_in(Mirror &st, CUdeviceptr address, uint64_t bytes)
{
    return std::ranges::subrange(st.flags.lower_bound(address),
                                 st.flags.lower_bound(address + bytes));
}

// All of a span but its flags.
CUresult push_around_flags(Mirror &st, const Span &s, bool exclusive)
{
    uint64_t from = 0;
    for (auto &[address, flag] : flags_in(st, s.device, s.bytes)) {
        const uint64_t at = address - s.device;
        if (at > from)
            if (CUresult r = push_span(st, part(s, from, at), exclusive)) return r;
        from = std::max(from, at + flag.bytes);
    }
    return from < s.bytes ? push_span(st, part(s, from, s.bytes), exclusive) : CUDA_SUCCESS;
}

// A flag as it was before the rest was sent: all its bytes in one write, when one has changed.
CUresult push_flag(Mirror &st, CUdeviceptr address, unsigned bytes, uint64_t value)
{
    const Span *s = holding(st, address, bytes);
    if (!s) return CUDA_SUCCESS;
    uint8_t now[sizeof value], *twin = s->twin + (address - s->device);
    memcpy(now, &value, bytes);
    if (!memcmp(now, twin, bytes)) return CUDA_SUCCESS;
    for (unsigned i = 0; i < bytes; i++) twin[i] = static_cast<uint8_t>(~now[i]);
    std::vector<uint8_t> diff;
    wire::make_diff(now, twin, bytes, 0, wire::kPushBytes, diff);
    return send(st, {address, bytes}, true, diff);
}

// The flags that a pull changed, which are behind all else that it brought: each into the program's
// memory as one value.
void show_flags(Mirror &st, const std::vector<CUdeviceptr> &changed)
{
    for (CUdeviceptr address : changed) {
        const unsigned bytes = st.flags.at(address).bytes;
        const Span *s = holding(st, address, bytes);
        uint64_t value = 0;
        if (!s || !read_flag(st, address, bytes, value)) continue;
        memcpy(&value, s->twin + (address - s->device), bytes);
        const uintptr_t to = s->host + (address - s->device);
        if (bytes == sizeof(uint64_t))
            std::atomic_ref(*reinterpret_cast<uint64_t *>(to))
                .store(value, std::memory_order_release);
        else
            std::atomic_ref(*reinterpret_cast<uint32_t *>(to))
                .store(static_cast<uint32_t>(value), std::memory_order_release);
    }
}

// Changed bytes into the program's memory, but for those of flags, which are noted.
void write_around_flags(Mirror &st, const Span &s, uint64_t at, const uint8_t *data, size_t n,
                        std::vector<CUdeviceptr> &changed)
{
    const auto to = reinterpret_cast<uint8_t *>(s.host);
    const uint64_t end = at + n;
    const CUdeviceptr first = s.device + at;
    for (auto &[address, flag] :
         flags_in(st, first - std::min<uint64_t>(at, 7), n + std::min<uint64_t>(at, 7))) {
        const uint64_t begins = address - s.device, ends = begins + flag.bytes;
        if (ends <= at) continue;
        if (begins > at) memcpy(to + at, data, begins - at), data += begins - at, at = begins;
        changed.push_back(address);
        const uint64_t skipped = std::min(ends, end) - at;
        data += skipped, at += skipped;
    }
    if (at < end) memcpy(to + at, data, end - at);
}

// One stretch of an answer to a pull: into the twin, and into the program's memory.
bool take(Mirror &st, uint64_t address, uint64_t bytes, const uint8_t *diff, size_t diff_bytes,
          std::vector<CUdeviceptr> &flags)
{
    const Span *span = holding(st, address, bytes);
    if (!span) return false;
    const Span &b = *span;
    const uint64_t offset = address - b.device;
    bool there = true;
    if (b.kind == Kind::registered) {
        std::vector<uint8_t> probe(bytes);
        there = read_carefully(probe.data(), b.host + offset, bytes);
    }
    return wire::apply_diff(diff, diff_bytes, bytes, [&](size_t at, const uint8_t *data, size_t n) {
        memcpy(b.twin + offset + at, data, n);
        if (there) write_around_flags(st, b, offset + at, data, n, flags);
    });
}

// `came`: bytes have come, of which the server believes that they are in the program's memory.
CUresult pull(Mirror &st, const std::vector<MirroredRange> &ranges, std::vector<CUdeviceptr> &flags,
              bool &came)
{
    Reply reply;
    CUresult r = session()->ask(
        CallId::cuMemAllocManaged, travel_context(st),
        [&](wire::Writer &w) {
            w.value(MirrorStep::pull), w.value(uint64_t{ranges.size()});
            for (const MirroredRange &range : ranges) w.value(range);
        },
        reply);
    if (r) return r;
    came = true;
    wire::Reader answer(reply.body.data(), reply.body.size());
    while (answer.ok() && answer.left()) {
        auto address = answer.value<uint64_t>();
        auto bytes = answer.value<uint32_t>(), n = answer.value<uint32_t>();
        const uint8_t *diff = answer.bytes(n);
        if (!diff || !take(st, address, bytes, diff, n, flags)) return CUDA_ERROR_UNKNOWN;
    }
    return answer.ok() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

template <class Reached> CUresult reached(uint64_t mark, Reached which)
{
    if (!active() || !session()) return CUDA_SUCCESS;
    Mirror &st = state();
    std::lock_guard order(st.order);
    std::erase_if(st.busy, [&](const auto &entry) {
        return which(entry.first, entry.second) && entry.second.last <= mark;
    });
    for (auto &[address, flag] : st.flags)
        std::erase_if(flag.waits, [&](const Flag::Wait &w) {
            return which(w.stream, {w.context, w.work}) && w.work <= mark;
        });
    return pull(st);
}

}  // namespace

namespace {

// Leaves the counts of writers with its thread.
struct Writer {
    uint32_t counted = 0;  // a bit for each server
    ~Writer()
    {
        for (unsigned s = 0; counted && session();
             s++) {  // in the child of a fork nobody may hold the lock any more
            if (!(counted >> s & 1)) continue;
            const At at(s);
            std::lock_guard order(state().order);
            may_write(state(), false);
        }
    }
};
thread_local Writer t_writer;

}  // namespace

bool read_flag(Mirror &st, CUdeviceptr address, unsigned bytes, uint64_t &value)
{
    const Span *s = holding(st, address, bytes);
    if (!s) return false;
    const uintptr_t from = s->host + (address - s->device);
    if (s->kind == Kind::registered) {
        uint8_t raw[sizeof value] = {};
        if (!read_carefully(raw, from, bytes)) return false;
        memcpy(&value, raw, sizeof value);
    } else if (bytes == sizeof(uint64_t)) {
        value = std::atomic_ref(*reinterpret_cast<uint64_t *>(from)).load();
    } else {
        value = std::atomic_ref(*reinterpret_cast<uint32_t *>(from)).load();
    }
    return true;
}

void may_write(Mirror &st, bool now)
{
    const uint32_t bit = 1u << here();
    if (now == ((t_writer.counted & bit) != 0)) return;
    st.writers += now ? 1u : -1u;
    t_writer.counted ^= bit;
}

HandleId travel_context(Mirror &st)
{
    const HandleId now = current_context();
    return now && is_here(now) ? now : st.last_context;
}

CUresult push(Mirror &st)
{
    const bool exclusive = st.busy.empty() && !st.device_wrote;
    if (CUresult r = send_unsent(st)) return r;
    // A flag's value is read before what it stands for, and gets there behind it.
    struct Seen {
        CUdeviceptr address;
        unsigned bytes;
        uint64_t value;
    };
    std::vector<Seen> seen;
    for (auto &[address, flag] : st.flags)
        if (uint64_t value = 0; read_flag(st, address, flag.bytes, value))
            seen.push_back({address, flag.bytes, value});
    for (const Span &s : spans(st)) {
        if (!s.any_time && !st.writers) continue;
        if (CUresult r = push_around_flags(st, s, exclusive)) return r;
    }
    for (const Seen &f : seen)
        if (CUresult r = push_flag(st, f.address, f.bytes, f.value)) return r;
    may_write(st, false);
    return CUDA_SUCCESS;
}

static CUresult pull_all(Mirror &st, bool &came)
{
    std::vector<MirroredRange> ranges;
    std::vector<CUdeviceptr> flags;
    uint64_t bytes = 0;
    auto flush = [&]() -> CUresult {
        CUresult r = ranges.empty() ? CUDA_SUCCESS : pull(st, ranges, flags, came);
        ranges.clear();
        bytes = 0;
        return r;
    };
    for (const Span &s : spans(st)) {
        if (s.read_only) continue;
        for (uint64_t at = 0; at < s.bytes;) {
            const uint64_t n = std::min<uint64_t>(s.bytes - at, wire::kMaxPullBytes - bytes);
            ranges.push_back({s.device + at, n});
            at += n, bytes += n;
            if (bytes < wire::kMaxPullBytes && ranges.size() < wire::kMaxPullRanges) continue;
            if (CUresult r = flush()) return r;
        }
    }
    if (CUresult r = flush()) return r;
    show_flags(st, flags);
    st.device_wrote = !st.busy.empty();
    return CUDA_SUCCESS;
}

CUresult pull(Mirror &st)
{
    may_write(st, true);
    if (!st.device_wrote) return CUDA_SUCCESS;
    bool came = false;
    try {
        return pull_all(st, came);
    } catch (const std::exception &) {
        if (came) session()->lose("this process lacks the memory for what it sent");
        throw;
    }
}

CUresult Work::begin(HandleId stream)
{
    if (!active() || is_captured(stream)) return CUDA_SUCCESS;
    Mirror &st = state();
    order_ = std::unique_lock(st.order);
    if (CUresult r = push(st)) return r;
    st.last_context = current_context();
    stream_ = stream_key(stream);
    st.busy[stream_] = {current_context(), ++st.works};
    st.device_wrote = true;
    for (const Span &s : spans(st))
        if (s.any_time) {
            arm_watch();
            break;
        }
    return CUDA_SUCCESS;
}

CUresult Work::begin(HandleId stream, std::initializer_list<CUdeviceptr> named)
{
    if (active())
        for (CUdeviceptr address : named)
            if (auto b = find(address); b && b->mirrored) return begin(stream);
    return CUDA_SUCCESS;
}

CUresult Work::begin_in(CUstream stream, std::initializer_list<CUdeviceptr> named)
{
    HandleId id = 0;
    if (!active()) return CUDA_SUCCESS;
    if (CUresult r = detail::id_in(stream, id)) return r;
    return begin(id, named);
}

CUresult before_read(CUdeviceptr named)
{
    if (!active()) return CUDA_SUCCESS;
    auto b = find(named);
    if (!b || !b->mirrored) return CUDA_SUCCESS;
    Mirror &st = state();
    std::lock_guard order(st.order);
    return push(st);
}

uint64_t mark()
{
    if (!active()) return 0;
    Mirror &st = state();
    std::lock_guard order(st.order);
    return st.works;
}

CUresult reached_everything(uint64_t mark)
{
    const HandleId context = current_context();
    return reached(mark, [&](uint64_t, const Mirror::Busy &b) { return b.context == context; });
}

CUresult reached_stream(uint64_t mark, HandleId stream)
{
    const uint64_t key = stream_key(stream);
    return reached(mark, [&](uint64_t k, const Mirror::Busy &) { return k == key; });
}

CUresult reached_event(uint64_t mark, HandleId event)
{
    if (!active()) return CUDA_SUCCESS;
    Mirror::Recorded recorded;
    {
        Mirror &st = state();
        std::lock_guard order(st.order);
        if (auto it = st.recorded.find(event); it != st.recorded.end()) recorded = it->second;
    }
    return reached(std::min(mark, recorded.last), [&](uint64_t k, const Mirror::Busy &) {
        return recorded.last && k == recorded.stream;
    });
}

void note_event(CUevent event, CUstream stream)
{
    HandleId in = 0, id = 0;
    if (detail::id_in(event, id) || detail::id_in(stream, in)) return;
    Mirror &st = state();
    std::lock_guard order(st.order);
    st.recorded[id] = {stream_key(in), st.works};
}

CUresult before_host_function()
{
    return reached(0, [](uint64_t, const Mirror::Busy &) { return false; });
}

CUresult after_host_function()
{
    if (!active() || !session()) return CUDA_SUCCESS;
    Mirror &st = state();
    std::lock_guard order(st.order);
    return push(st);
}

}  // namespace rgpu::interpose::mirror
