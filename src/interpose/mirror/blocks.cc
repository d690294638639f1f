// SPDX-License-Identifier: Apache-2.0
// Where shared memory lies, and what it is.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "interpose/base/log.h"
#include "interpose/mirror/state.h"
#include "interpose/state/capture.h"
#include "interpose/state/client.h"
#include "interpose/state/process.h"
#include "interpose/state/servers.h"
#include "interpose/stub/by_hand.h"
#include "wire/mirror.h"

namespace rgpu::interpose::mirror {

Mirror &state() { return client_part<EachServer<Mirror>>(Part::shared_memory)(); }

namespace {

using calls::CallId;
using wire::MirrorStep;

constexpr uint64_t kGranule = wire::kMirrorGranule;
constexpr uint64_t kSmall = kGranule / 2;  // blocks up to this share segments
constexpr uint64_t kPage = 4096;
constexpr int kMostTries = 4,
              kMostTriesApart = 256;  // for addresses, with one server and with several

constexpr uint64_t round_up(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit * unit; }
void *pointer(uint64_t address) { return reinterpret_cast<void *>(address); }

CUresult ask(MirrorStep step, std::initializer_list<uint64_t> values, Reply &reply)
{
    ServerSession *s = session();
    if (!s) return not_ready();
    return s->ask(
        CallId::cuMemAllocManaged, current_context(),
        [&](wire::Writer &w) {
            w.value(step);
            for (uint64_t v : values) w.value(v);
        },
        reply);
}

void release(uint64_t address)
{
    if (ServerSession *s = session())
        s->post(CallId::cuMemAllocManaged, calls::kNoHandle,
                [&](wire::Writer &w) { w.value(MirrorStep::release), w.value(address); });
}

// Whether the server names addresses that a process can have, and where nothing is shared with it
// yet: within the range that is held for device memory, what is mapped takes the place of what was.
bool is_place(const Mirror &st, uint64_t address, uint64_t bytes)
{
    constexpr uint64_t kEnd = uint64_t{1} << 47;
    if (!address || !bytes || bytes > kEnd || address > kEnd - bytes) return false;
    const auto next = st.segments.lower_bound(address + bytes);
    return next == st.segments.begin() ||
           std::prev(next)->first + std::prev(next)->second.bytes <= address;
}

// The same for a segment, which lies as the server reserves and holds nobody's variables.
bool is_segment_place(const Mirror &st, uint64_t address, uint64_t bytes)
{
    if (address % kGranule || !is_place(st, address, bytes)) return false;
    const auto variable = st.variable_pages.lower_bound(address);
    return variable == st.variable_pages.end() || variable->first >= address + bytes;
}

// The largest managed variable. The process writes all of it as soon as it has found it, and keeps
// a twin of the same size. The server says the size, and may lie.
constexpr size_t kMostVariable = size_t{2} << 30;

// Memory of this process at addresses that the server has given. False when something else is
// there.
bool map_here(uint64_t address, uint64_t bytes, int protection)
{
    const int fixed = in_reserved_range(address, bytes) ? MAP_FIXED : MAP_FIXED_NOREPLACE;
    void *p = mmap(pointer(address), bytes, protection,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
    if (p != MAP_FAILED && p != pointer(address))
        munmap(p, bytes);  // a kernel older than MAP_FIXED_NOREPLACE
    return p == pointer(address);
}

void unmap_here(uint64_t address, uint64_t bytes)
{
    if (in_reserved_range(address, bytes))
        (void)mmap(pointer(address), bytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    else
        munmap(pointer(address), bytes);
}

uint8_t *make_twin(uint64_t bytes)
{
    void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    madvise(p, bytes, MADV_DONTFORK);
    return static_cast<uint8_t *>(p);
}

// Where this process has room: a proposal to the server, whose own choice was taken here.
uint64_t free_place(uint64_t bytes)
{
    void *p = mmap(nullptr, bytes + kGranule, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return 0;
    munmap(p, bytes + kGranule);
    return round_up(reinterpret_cast<uint64_t>(p), kGranule);
}

// Addresses that mean the same here and there.
CUresult reserve(const Mirror &st, uint64_t bytes, int protection, uint64_t &address)
{
    uint64_t hint = 0;
    // Kept for so long: a driver that knows no hints would give them again.
    struct Refused {
        std::vector<uint64_t> all;
        ~Refused()
        {
            guard("shared memory", [&] {
                for (uint64_t a : all) release(a);
                return CUDA_SUCCESS;
            });
        }
    } refused;
    for (int attempt = 0; attempt < (spanning() ? kMostTriesApart : kMostTries); attempt++) {
        Reply reply;
        if (CUresult r = ask(MirrorStep::reserve, {hint, bytes}, reply)) return r;
        wire::Reader answer(reply.body.data(), reply.body.size());
        address = answer.value<uint64_t>();
        if (!answer.at_end()) return CUDA_ERROR_UNKNOWN;
        if (is_segment_place(st, address, bytes) && !addresses_elsewhere(address, bytes) &&
            !is_range_elsewhere(address, bytes) && map_here(address, bytes, protection))
            return CUDA_SUCCESS;
        refused.all.push_back(address);
        hint = free_place(bytes);
    }
    say("cannot place %llu bytes that the program and its kernels share: program and GPU server "
        "use the same addresses "
        "for different things",
        static_cast<unsigned long long>(bytes));
    return CUDA_ERROR_OUT_OF_MEMORY;
}

// With `order` held, as all below. Device memory behind a segment.
CUresult back(uint64_t base, Segment &s)
{
    if (s.twin) return CUDA_SUCCESS;
    uint8_t *twin = make_twin(s.bytes);
    if (!twin) return CUDA_ERROR_OUT_OF_MEMORY;
    Reply reply;
    if (CUresult r = s.of_program ? ask(MirrorStep::back_mapped, {base, s.bytes}, reply)
                                  : ask(MirrorStep::back, {base}, reply)) {
        munmap(twin, s.bytes);
        return r;
    }
    s.twin = twin;
    return CUDA_SUCCESS;
}

CUresult new_segment(Mirror &st, Kind kind, uint64_t bytes, Segment *&segment, uint64_t &base)
{
    Segment s;
    s.bytes = round_up(bytes, kGranule);
    s.kind = kind;
    s.device = current_device();
    const int protection = kind == Kind::registered ? PROT_NONE : PROT_READ | PROT_WRITE;
    const auto space = hold_space();
    if (CUresult r = reserve(st, s.bytes, protection, base)) return r;
    Unless placed([&] {
        unmap_here(base, s.bytes);
        release(base);
    });
    if (kind == Kind::managed)
        if (CUresult r = back(base, s)) return r;
    s.holes[base] = s.bytes;
    std::lock_guard lock(st.tables);
    segment = &(st.segments[base] = std::move(s));
    placed.keep();
    return CUDA_SUCCESS;
}

// Nothing is to be sent to these addresses any more.
void forget_unsent(Mirror &st, uint64_t address, uint64_t bytes)
{
    if (st.unsent && st.unsent->range.address - address < bytes) st.unsent.reset();
}

void end_segment(Mirror &st, const uint64_t base)
{
    auto it = st.segments.find(base);
    forget_unsent(st, base, it->second.bytes);
    if (it->second.twin) munmap(it->second.twin, it->second.bytes);
    unmap_here(base, it->second.bytes);
    if (it->second.twin || !it->second.of_program) release(base);
    st.segments.erase(it);
}

uint64_t take_hole(Segment &s, uint64_t bytes)
{
    for (auto [address, room] : s.holes) {
        if (room < bytes) continue;
        s.holes.erase(address);
        if (room > bytes) s.holes[address + bytes] = room - bytes;
        s.used += bytes;
        return address;
    }
    return 0;
}

void give_hole(Segment &s, uint64_t address, uint64_t bytes)
{
    s.used -= bytes;
    auto next = s.holes.lower_bound(address);
    if (next != s.holes.end() && address + bytes == next->first) {
        bytes += next->second;
        next = s.holes.erase(next);
    }
    if (next != s.holes.begin() && std::prev(next)->first + std::prev(next)->second == address)
        std::prev(next)->second += bytes;
    else
        s.holes[address] = bytes;
}

auto segment_of(Mirror &st, uint64_t address)
{
    return std::prev(st.segments.upper_bound(address));
}

// A segment of its kind and device with a hole, or a new one; the block's address.
CUresult place(Mirror &st, Kind kind, uint64_t bytes, uint64_t &base, CUdeviceptr &address)
{
    for (auto &[b, s] : st.segments) {
        if (bytes > kSmall || s.kind != kind || s.device != current_device() || s.bytes != kGranule)
            continue;
        base = b;
        if ((address = take_hole(s, bytes))) return CUDA_SUCCESS;
    }
    Segment *s = nullptr;
    if (CUresult r = new_segment(st, kind, bytes, s, base)) return r;
    address = take_hole(*s, bytes <= kSmall ? bytes : s->bytes);
    return CUDA_SUCCESS;
}

void add(Mirror &st, const Block &b)
{
    std::lock_guard lock(st.tables);
    st.spans_known = false;
    st.blocks[b.device] = b;
    Unless whole([&] { st.blocks.erase(b.device); });
    if (b.kind == Kind::registered) st.mirrors[b.host] = b.device;
    whole.keep();
    client_counter(Counter::blocks)++;
    if (b.mirrored) client_counter(Counter::mirrored_blocks)++;
    may_write(st, true);
}

// What a block takes up in its segment.
uint64_t taken(const Block &b, const Segment &s)
{
    const uint64_t bytes = round_up(b.bytes, kPage);
    return bytes <= kSmall && s.bytes == kGranule ? bytes : s.bytes;
}

CUresult share(Mirror &st, Block &b)
{
    if (b.mirrored) return CUDA_SUCCESS;
    auto segment = segment_of(st, b.device);
    if (CUresult r = back(segment->first, segment->second)) return r;
    std::lock_guard lock(st.tables);
    st.spans_known = false;
    b.twin = segment->second.twin + (b.device - segment->first);
    b.mirrored = true;
    client_counter(Counter::mirrored_blocks)++;
    return CUDA_SUCCESS;
}

// Shares a block, and what it is one array with.
CUresult share_whole(Mirror &st, Block &b)
{
    if (CUresult r = share(st, b)) return r;
    if (!b.piece) return CUDA_SUCCESS;
    const auto here = st.blocks.find(b.device);
    CUdeviceptr end = b.device + b.bytes, begin = b.device;
    for (auto it = std::next(here); it != st.blocks.end(); ++it) {
        if (!it->second.piece || it->first != end) break;
        if (CUresult r = share(st, it->second)) return r;
        end += it->second.bytes;
    }
    for (auto it = here; it != st.blocks.begin();) {
        --it;
        if (!it->second.piece || it->first + it->second.bytes != begin) break;
        if (CUresult r = share(st, it->second)) return r;
        begin = it->first;
    }
    return CUDA_SUCCESS;
}

// The block that holds the address, or null. The caller holds a lock.
Block *holding(Mirror &st, CUdeviceptr address)
{
    auto it = st.blocks.upper_bound(address);
    if (it == st.blocks.begin()) return nullptr;
    --it;
    return address - it->first < it->second.bytes ? &it->second : nullptr;
}

// A variable that was there is there no more.
void let_page_go(Mirror &st, uint64_t page)
{
    auto it = st.variable_pages.find(page);
    if (it == st.variable_pages.end() || --it->second) return;
    unmap_here(page, kPage);
    st.variable_pages.erase(it);
}

void end_variable(Mirror &st, const Block &b)
{
    forget_unsent(st, b.device, b.bytes);
    free(b.twin);
    release(b.device);
    for (uint64_t page = b.device / kPage * kPage; page < b.device + b.bytes; page += kPage)
        let_page_go(st, page);
}

// So many bytes of a segment are free again.
void leave(Mirror &st, uint64_t base, CUdeviceptr address, uint64_t bytes)
{
    Segment &segment = st.segments.at(base);
    const bool whole = bytes > kSmall || bytes >= segment.bytes;
    give_hole(segment, whole ? base : address, whole ? segment.bytes : bytes);
    // An empty one that small blocks share is kept, but not with device memory.
    if (!segment.used && (whole || segment.twin)) end_segment(st, base);
}

void end_block(Mirror &st, CUdeviceptr address)
{
    std::lock_guard lock(st.tables);
    auto it = st.blocks.find(address);
    if (it == st.blocks.end()) return;
    const Block b = it->second;
    st.spans_known = false;
    st.blocks.erase(it);
    client_counter(Counter::blocks)--;
    if (b.mirrored) client_counter(Counter::mirrored_blocks)--;
    if (b.kind == Kind::registered) st.mirrors.erase(b.host);
    st.flags.erase(st.flags.lower_bound(b.device), st.flags.lower_bound(b.device + b.bytes));
    if (b.kind == Kind::variable) {
        end_variable(st, b);
        return;
    }
    auto &[base, segment] = *segment_of(st, b.device);
    leave(st, base, b.device, b.kind == Kind::registered ? segment.bytes : taken(b, segment));
}

}  // namespace

const std::vector<Span> &spans(Mirror &st)
{
    if (st.spans_known) return st.spans;
    constexpr uint64_t kClose = 64 << 10;  // what lies between is compared for nothing
    st.spans.clear();
    for (auto &[address, b] : st.blocks) {
        if (!b.mirrored) continue;
        const Span next{b.device, b.host, b.bytes, b.twin, b.kind, b.any_time, b.read_only};
        if (!st.spans.empty() && (b.kind == Kind::managed || b.kind == Kind::pinned)) {
            Span &s = st.spans.back();
            // In one segment memory and twins lie alike.
            const bool alike = s.kind == b.kind && s.any_time == b.any_time &&
                               next.twin - s.twin == static_cast<long>(next.device - s.device);
            if (alike && segment_of(st, s.device) == segment_of(st, b.device) &&
                next.device - (s.device + s.bytes) < kClose) {
                s.bytes = next.device + next.bytes - s.device;
                continue;
            }
        }
        st.spans.push_back(next);
    }
    st.spans_known = true;
    return st.spans;
}

CUresult allocate(Kind kind, size_t bytes, CUdeviceptr &address)
{
    Mirror &st = state();
    std::lock_guard order(st.order);
    uint64_t base = 0;
    // Pages of its own: what is beside it is compared and sent apart.
    if (CUresult r = place(st, kind, round_up(bytes, kPage), base, address)) return r;
    Unless added([&] { leave(st, base, address, round_up(bytes, kPage)); });
    Block b;
    b.kind = kind;
    b.device = b.host = address;
    b.bytes = bytes;
    b.context = current_context();
    b.any_time = kind != Kind::managed;
    if (kind == Kind::managed) {
        b.mirrored = true;
        b.twin = st.segments[base].twin + (address - base);
    }
    add(st, b);
    added.keep();
    return CUDA_SUCCESS;
}

CUresult map(CUdeviceptr address, size_t bytes, int file, size_t offset)
{
    Mirror &st = state();
    std::lock_guard order(st.order);
    if (!is_segment_place(st, address, bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (!map_here(address, bytes, PROT_READ | PROT_WRITE)) {
        say("cannot map host memory at %#llx, which the GPU server reserved: this program uses "
            "that address for something else; start it again",
            static_cast<unsigned long long>(address));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    Unless placed([&] {
        unmap_here(address, bytes);
        std::lock_guard lock(st.tables);
        st.segments.erase(address);
    });
    if (mmap(pointer(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
             static_cast<off_t>(offset)) == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    Segment s;
    s.bytes = s.used = bytes;
    s.kind = Kind::pinned;
    s.device = current_device();
    s.of_program = true;
    Block b;
    b.device = b.host = address;
    b.bytes = bytes;
    b.context = current_context();
    b.any_time = b.piece = true;
    {
        std::lock_guard lock(st.tables);
        st.segments[address] = std::move(s);
    }
    add(st, b);
    placed.keep();
    // It goes on where a kernel may be working already.
    const Block *before = holding(st, address - 1), *behind = holding(st, address + bytes);
    const bool shared = (before && before->piece && before->mirrored) ||
                        (behind && behind->piece && behind->mirrored);
    const CUresult r = shared ? share(st, st.blocks.at(address)) : CUDA_SUCCESS;
    if (r) end_block(st, address);
    return r;
}

void give_back(CUdeviceptr address)
{
    Mirror &st = state();
    std::lock_guard order(st.order);
    end_block(st, address);
}

CUresult share(CUdeviceptr address)
{
    // What is still on its way into the block must be there before it is sent.
    if (ServerSession *s = session(); s && s->copies_under_way() && !any_capture())
        if (CUresult r = own::cuCtxSynchronize()) return r;
    Mirror &st = state();
    std::lock_guard order(st.order);
    Block *b = holding(st, address);
    return b ? share_whole(st, *b) : CUDA_SUCCESS;
}

CUresult mirror_registered(const HostRange &range, CUdeviceptr &device)
{
    Mirror &st = state();
    std::lock_guard order(st.order);
    if (auto it = st.mirrors.find(range.base); it != st.mirrors.end()) {
        device = it->second;
        return CUDA_SUCCESS;
    }
    Segment *s = nullptr;
    uint64_t base = 0;
    Block b;
    b.kind = Kind::registered;
    b.host = range.base;
    b.bytes = range.bytes;
    b.context = current_context();
    b.any_time = true;
    b.read_only = range.flags & CU_MEMHOSTREGISTER_READ_ONLY;
    // Kernels may count on the alignment that the program's address has.
    const uint64_t offset = range.base % kPage;
    if (CUresult r = new_segment(st, Kind::registered, offset + range.bytes, s, base)) return r;
    b.device = device = base + offset;
    s->used = s->bytes;
    s->holes.clear();
    add(st, b);
    return CUDA_SUCCESS;
}

void note_registration(uintptr_t host, int change)
{
    client_counter(Counter::blocks) += static_cast<unsigned>(change);
    if (change > 0) return;
    for (unsigned s = 0; s < server_count(); s++) {
        const At at(s);
        Mirror &st = state();
        std::lock_guard order(st.order);
        if (auto it = st.mirrors.find(host); it != st.mirrors.end()) end_block(st, it->second);
    }
}

CUresult adopt(CUdeviceptr address, size_t bytes, HandleId owner)
{
    Mirror &st = state();
    std::lock_guard order(st.order);
    if (holding(st, address)) return CUDA_SUCCESS;
    if (!is_place(st, address, bytes)) return CUDA_ERROR_UNKNOWN;
    if (bytes > kMostVariable) {
        say("a managed variable has %zu bytes, and %zu are the most; allocate that memory with "
            "cudaMallocManaged instead",
            bytes, kMostVariable);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    Block b;
    b.kind = Kind::variable;
    b.mirrored = true;
    b.device = b.host = address;
    b.bytes = bytes;
    b.context = current_context();
    b.owner = owner;
    b.twin = static_cast<uint8_t *>(calloc(bytes, 1));
    if (!b.twin) return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t page = address / kPage * kPage;
    Unless placed([&] {
        free(b.twin);
        for (uint64_t p = address / kPage * kPage; p < page; p += kPage) let_page_go(st, p);
    });
    for (; page < address + bytes; page += kPage) {
        auto &users = st.variable_pages[page];
        if (!users && !map_here(page, kPage, PROT_READ | PROT_WRITE)) {
            st.variable_pages.erase(page);
            say("cannot place a managed variable at %#llx, where the GPU server has it: this "
                "program uses that address "
                "for something else; start it again",
                static_cast<unsigned long long>(address));
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        users++;
    }
    memset(pointer(address), 0, bytes);
    add(st, b);
    placed.keep();
    st.device_wrote = true;
    return pull(st);
}

namespace {

template <class Which> void forget_if(Which which)
{
    if (!any() || !session()) return;
    Mirror &st = state();
    std::lock_guard order(st.order);
    std::vector<CUdeviceptr> gone;
    for (auto &[address, b] : st.blocks)
        if (which(b)) gone.push_back(address);
    for (CUdeviceptr address : gone) end_block(st, address);
}

}  // namespace

void forget_owner(HandleId owner)
{
    forget_if([&](const Block &b) { return b.kind == Kind::variable && b.owner == owner; });
}

void forget_context(HandleId context)
{
    forget_if([&](const Block &b) {
        return b.context == context && (b.kind == Kind::managed || b.kind == Kind::variable);
    });
    if (!session()) return;
    Mirror &st = state();
    std::lock_guard order(st.order);
    if (st.last_context == context) st.last_context = 0;
    std::erase_if(st.busy, [&](const auto &entry) { return entry.second.context == context; });
}

namespace {

std::optional<Block> find_here(CUdeviceptr address)
{
    Mirror &st = state();
    std::shared_lock lock(st.tables);
    Block *b = holding(st, address);
    return b ? std::optional(*b) : std::nullopt;
}

// `f` at each other server, until it is true.
template <class F> bool elsewhere(F f)
{
    if (!spanning()) return false;
    const unsigned first = here();
    for (unsigned s = 0; s < server_count(); s++) {
        if (s == first) continue;
        const At at(s);
        if (f()) return true;
    }
    return false;
}

}  // namespace

std::optional<Block> find(CUdeviceptr address)
{
    std::optional<Block> found = find_here(address);
    if (!found) elsewhere([&] { return (found = find_here(address)).has_value(); });
    return found;
}

CUresult must_be_here(CUdeviceptr address)
{
    if (!spanning() || find_here(address) ||
        !elsewhere([&] { return find_here(address).has_value(); }))
        return CUDA_SUCCESS;
    static std::atomic<bool> said{false};
    if (!said.exchange(true))
        say("a kernel on a GPU of server %s cannot use managed or mapped host memory that belongs "
            "to another server's GPU: give each "
            "server's GPUs memory of their own, or ask for GPUs of one server (without "
            "--rgpu-span)",
            session()->server().c_str());
    return CUDA_ERROR_NOT_SUPPORTED;
}

bool addresses_elsewhere(CUdeviceptr base, size_t bytes)
{
    return elsewhere([&] {
        Mirror &st = state();
        std::shared_lock lock(st.tables);
        auto it = st.segments.lower_bound(base + bytes);
        return it != st.segments.begin() &&
               std::prev(it)->first + std::prev(it)->second.bytes > base;
    });
}

std::optional<CUdeviceptr> device_address(const void *p)
{
    Mirror &st = state();
    const auto host = reinterpret_cast<uintptr_t>(p);
    std::shared_lock lock(st.tables);
    if (Block *b = holding(st, host); b && b->mirrored && b->kind != Kind::registered) return host;
    auto it = st.mirrors.upper_bound(host);
    if (it == st.mirrors.begin()) return std::nullopt;
    --it;
    const Block &b = st.blocks.at(it->second);
    if (!b.mirrored || host - b.host >= b.bytes) return std::nullopt;
    return b.device + (host - b.host);
}

void set_any_time(CUdeviceptr address, bool any_time)
{
    Mirror &st = state();
    std::lock_guard order(st.order);
    std::lock_guard lock(st.tables);
    if (Block *b = holding(st, address)) b->any_time = any_time;
    st.spans_known = false;
}

CUresult look_at_parameters(uint8_t *&data, size_t bytes, std::vector<uint8_t> &room)
{
    for (size_t at = 0; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
        uint64_t value;
        memcpy(&value, data + at, sizeof value);
        if (auto b = find(value)) {
            if (CUresult r = must_be_here(value)) return r;
            if (b->mirrored) continue;
            if (CUresult r = share(value)) return r;
        } else if (auto range = find_host(pointer(value)); range && !range->allocated) {
            CUdeviceptr device = 0;
            if (CUresult r = mirror_registered(*range, device)) return r;
            if (CUresult r = share(device)) return r;
            if (room.empty() || data != room.data()) {
                room.assign(data, data + bytes);
                data = room.data();
            }
            const uint64_t there = device + (value - range->base);
            memcpy(data + at, &there, sizeof there);
        }
    }
    return CUDA_SUCCESS;
}

}  // namespace rgpu::interpose::mirror
