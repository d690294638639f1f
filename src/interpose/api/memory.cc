// Allocations, host memory, and what pointers are.
#include "interpose/state/ranges.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>

#include "interpose/base/log.h"
#include "interpose/mirror/mirror.h"
#include "interpose/span/address_space.h"
#include "interpose/span/relay.h"
#include "interpose/state/capture.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose {

namespace {

struct Ranges {
    std::mutex mutex;
    EachServer<std::map<CUdeviceptr, DeviceRange>> device;
    std::map<uintptr_t, HostRange> host;
    uint64_t next_buffer_id = 1;
    // Where a server's memory lies.
    struct Known {
        CUdeviceptr base = 0, end = 0;
        bool held = false;  // by us, and by nothing else
    };
    EachServer<Known> known;
    // Of cuMemAddressReserve; noted only where several servers are.
    struct Reservation {
        size_t bytes = 0;
        AddressOwner owner;
    };
    std::map<CUdeviceptr, Reservation> reservations;
};

// All addresses of device memory that there ever was lie in it. It only grows, with the mutex of
// Ranges held.
class Hull {
public:
    void include(CUdeviceptr begin, CUdeviceptr end)
    {
        if (begin < begin_) begin_ = begin;
        if (end > end_) end_ = end;
    }
    bool holds(CUdeviceptr address) const { return address >= begin_ && address < end_; }

private:
    std::atomic<CUdeviceptr> begin_{~CUdeviceptr{0}}, end_{0};
};

Hull &hull()
{
    static Hull &h = *new Hull;
    return h;
}

Ranges &ranges()
{
    static Ranges &r = *new Ranges;
    return r;
}

// The range of `map` that holds `address`.
template <class Map> typename Map::mapped_type *holding(Map &map, typename Map::key_type address)
{
    auto it = map.upper_bound(address);
    if (it == map.begin()) return nullptr;
    --it;
    return address - it->first < it->second.bytes ? &it->second : nullptr;
}

// With the mutex held: the range that holds the address, here before elsewhere; and which server's
// it is.
DeviceRange *holding(CUdeviceptr address, unsigned *server = nullptr)
{
    const unsigned first = here();
    for (unsigned i = 0, n = server_count(); i < n; i++) {
        const unsigned s = i == 0 ? first : i <= first ? i - 1 : i;
        if (DeviceRange *r = holding(ranges().device.at(s), address)) {
            if (server) *server = s;
            return r;
        }
    }
    return nullptr;
}

size_t whole_pages(size_t bytes) { return (bytes + 4095) & ~size_t{4095}; }

CUresult allocate_host(void **out, size_t bytes, unsigned flags)
{
    if (!session()) return not_ready();
    if (CUresult r = context_state()) return r;
    constexpr unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
                               CU_MEMHOSTALLOC_WRITECOMBINED;
    if (!out || !bytes || flags & ~known) return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr base = 0;
    CUresult r = shared::allocate(shared::Kind::pinned, bytes, base);
    if (!r && flags & CU_MEMHOSTALLOC_DEVICEMAP && (r = shared::share(base)))
        shared::give_back(base);
    if (r == CUDA_ERROR_NOT_SUPPORTED && !(flags & CU_MEMHOSTALLOC_DEVICEMAP)) {
        // Where kernels cannot reach it, it still is memory for copies.
        void *p = mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        base = reinterpret_cast<uintptr_t>(p);
        r = p == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
    }
    if (r) return r;
    Unless noted([&] {
        shared::find(base) ? shared::give_back(base)
                           : (void)munmap(reinterpret_cast<void *>(base), whole_pages(bytes));
    });
    std::lock_guard lock(ranges().mutex);
    ranges().host[base] = {base, bytes, flags, true, current_context(), current_device()};
    noted.keep();
    *out = reinterpret_cast<void *>(base);
    return CUDA_SUCCESS;
}

}  // namespace

void reserve_device_range(const Session &session)
{
    const wire::Snapshot &s = session.snapshot();
    if (!s.device_size) return;
    Ranges::Known &known = ranges().known.at(session.index());
    known.base = s.device_base;
    known.end = s.device_base + s.device_size;
    for (unsigned other = 0; other < session.index(); other++) {
        const Ranges::Known &k = ranges().known.at(other);
        known.held |= k.held && k.base == known.base && k.end == known.end;
    }
    if (known.held) return;
    void *want = reinterpret_cast<void *>(s.device_base);
    void *got = mmap(want, s.device_size, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    known.held = got == want;
    if (got != MAP_FAILED && got != want)
        munmap(got, s.device_size);  // a kernel older than MAP_FIXED_NOREPLACE
    if (got == MAP_FAILED && errno != EEXIST)
        say("warning: the addresses that the GPU server uses for device memory (%#llx, %llu bytes) "
            "cannot be held here: %s; a pointer to "
            "one may be taken for memory of this program's (ulimit -v?)",
            static_cast<unsigned long long>(s.device_base),
            static_cast<unsigned long long>(s.device_size), strerror(errno));
    else if (got != want)
        say("warning: this program uses addresses that the GPU server uses for device memory "
            "(%#llx, %llu bytes); a pointer to one may be taken for the other",
            static_cast<unsigned long long>(s.device_base),
            static_cast<unsigned long long>(s.device_size));
}

void note_allocation(CUdeviceptr base, size_t bytes, bool mapped)
{
    std::lock_guard lock(ranges().mutex);
    hull().include(base, base + bytes);
    // A graph's memory that the driver has given away was no more.
    auto &all = ranges().device();
    for (auto it = all.lower_bound(base); it != all.end() && it->first - base < bytes;)
        it = it->second.graph ? all.erase(it) : std::next(it);
    ranges().device()[base] = {
        base,   bytes, current_context(), current_device(), ranges().next_buffer_id++,
        mapped, mapped};
}

void note_access(CUdeviceptr base, size_t bytes, bool allowed)
{
    std::lock_guard lock(ranges().mutex);
    for (auto &[address, range] : ranges().device())
        if (range.mapped && address >= base && address - base < bytes) range.no_access = !allowed;
}

void forget_mappings(CUdeviceptr base, size_t bytes)
{
    std::lock_guard lock(ranges().mutex);
    std::erase_if(ranges().device(), [&](auto &entry) {
        return entry.second.mapped && entry.first >= base && entry.first - base < bytes;
    });
}

bool in_reserved_range(CUdeviceptr address, size_t bytes)
{
    for (unsigned s = 0; s < server_count(); s++) {
        const Ranges::Known &k = ranges().known.at(s);
        if (k.held && address >= k.base && address < k.end && bytes <= k.end - address) return true;
    }
    return false;
}

void note_managed(CUdeviceptr base, size_t bytes)
{
    note_allocation(base, bytes);
    std::lock_guard lock(ranges().mutex);
    ranges().device()[base].managed = true;
}

void note_imported(CUdeviceptr base, size_t bytes)
{
    note_allocation(base, bytes);
    std::lock_guard lock(ranges().mutex);
    ranges().device()[base].imported = true;
}

void note_graph_memory(CUdeviceptr base, size_t bytes)
{
    note_allocation(base, bytes);
    std::lock_guard lock(ranges().mutex);
    ranges().device()[base].graph = true;
}

bool note_sync_memops(CUdeviceptr address, bool set)
{
    std::lock_guard lock(ranges().mutex);
    if (DeviceRange *r = holding(address)) {
        r->sync_memops = set;
        return true;
    }
    HostRange *r = holding(ranges().host, static_cast<uintptr_t>(address));
    if (r) r->sync_memops = set;
    return r;
}

bool forget_allocation(CUdeviceptr base)
{
    std::lock_guard lock(ranges().mutex);
    auto &all = ranges().device();
    auto it = all.find(base);
    if (it == all.end() || it->second.mapped) return false;
    if (!it->second.graph) all.erase(it);
    return true;
}

void forget_allocations(HandleId context)
{
    shared::forget_context(context);
    std::lock_guard lock(ranges().mutex);
    for (unsigned s = 0; s < server_count(); s++)
        std::erase_if(ranges().device.at(s),
                      [&](auto &entry) { return entry.second.context == context; });
}

std::optional<DeviceRange> find_device(CUdeviceptr address)
{
    std::lock_guard lock(ranges().mutex);
    DeviceRange *r = holding(address);
    return r ? std::optional(*r) : std::nullopt;
}

bool is_known_here(CUdeviceptr address)
{
    std::lock_guard lock(ranges().mutex);
    return holding(ranges().device(), address);
}

std::optional<AddressOwner> owner_of_address(CUdeviceptr address)
{
    {
        std::lock_guard lock(ranges().mutex);
        AddressOwner owner;
        if (DeviceRange *r = holding(address, &owner.server)) {
            owner.context = r->context;
            return owner;
        }
        if (auto *r = holding(ranges().reservations, address)) return r->owner;
    }
    if (!shared::any()) return std::nullopt;
    const auto b = shared::find(address);
    return b && b->shared && b->context
               ? std::optional(AddressOwner{Handles::get().at(b->context)->server, b->context})
               : std::nullopt;
}

namespace {

// Whether [base, base + bytes) meets one of the map's ranges, which do not meet each other, for
// which `counts` holds.
template <class Map, class Counts>
bool meets(const Map &map, CUdeviceptr base, size_t bytes, Counts counts)
{
    for (auto it = map.lower_bound(base + bytes); it != map.begin();) {
        --it;
        if (it->first + it->second.bytes > base && counts(it->second)) return true;
        if (it->first <= base) break;
    }
    return false;
}

}  // namespace

bool taken_elsewhere(CUdeviceptr base, size_t bytes)
{
    if (!spanning()) return false;
    const unsigned mine = here();
    if (shared::addresses_elsewhere(base, bytes)) return true;
    std::lock_guard lock(ranges().mutex);
    for (unsigned s = 0; s < server_count(); s++)
        if (s != mine &&
            meets(ranges().device.at(s), base, bytes, [](const DeviceRange &) { return true; }))
            return true;
    return meets(ranges().reservations, base, bytes,
                 [&](const Ranges::Reservation &r) { return r.owner.server != mine; }) ||
           meets(ranges().host, base, bytes, [&](const HostRange &h) {
               return h.allocated && Handles::get().at(h.context)->server != mine;
           });
}

void note_reservation(CUdeviceptr base, size_t bytes)
{
    if (!spanning()) return;
    std::lock_guard lock(ranges().mutex);
    ranges().reservations[base] = {bytes, {here(), current_context()}};
}

void forget_reservation(CUdeviceptr base)
{
    std::lock_guard lock(ranges().mutex);
    ranges().reservations.erase(base);
}

std::optional<HostRange> find_host(const void *address)
{
    std::lock_guard lock(ranges().mutex);
    HostRange *r = holding(ranges().host, reinterpret_cast<uintptr_t>(address));
    return r ? std::optional(*r) : std::nullopt;
}

bool is_freed(CUdeviceptr address, size_t bytes)
{
    if (!hull().holds(address)) return false;
    const auto absent = [](CUdeviceptr at) {
        char byte;
        const iovec to{&byte, 1}, from{reinterpret_cast<void *>(at), 1};
        return process_vm_readv(getpid(), &to, 1, &from, 1, 0) < 0 && errno == EFAULT;
    };
    return absent(address) || absent(address + bytes - 1);
}

bool is_device_address(CUdeviceptr address)
{
    if (shared::any())
        if (auto b = shared::find(address)) return b->shared;
    for (unsigned s = 0; s < server_count(); s++)
        if (const Ranges::Known &k = ranges().known.at(s); address >= k.base && address < k.end)
            return true;
    return find_device(address).has_value();
}

bool is_device_range(CUdeviceptr address, size_t bytes)
{
    if (shared::any())
        if (auto b = shared::find(address))
            return bytes <= b->bytes - (address - b->device) && !shared::share(address);
    auto range = find_device(address);
    // Virtual memory is mapped piece by piece: what adjoins is one range.
    for (; range; range = find_device(address)) {
        if (range->no_access) return false;
        const size_t here = range->base + range->bytes - address;
        if (bytes <= here) return true;
        address += here, bytes -= here;
        if (!range->mapped) return false;
    }
    // Where the server's memory lies is known beforehand: there, what no call gave is nothing.
    return !ranges().known().end && is_device_address(address);
}

namespace {

// The last answer to cuMemGetInfo. Other programs on the GPU change it at any time, so a moment
// later nobody can tell whether it is new; but what this process did since must be in it, and what
// it learned.
struct MemoryInfo {
    static constexpr std::chrono::microseconds kFresh{100};

    std::mutex mutex;
    HandleId context = 0;
    uint64_t sent = 0, heard = 0;
    std::chrono::steady_clock::time_point when;
    size_t free = 0, total = 0;
};

}  // namespace

namespace own {

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    if (!session()) return not_ready();
    static MemoryInfo &last = *new MemoryInfo;
    std::lock_guard lock(last.mutex);
    const bool fresh = last.context && last.context == current_context() &&
                       last.sent == session()->sent() && last.heard == session()->heard() &&
                       std::chrono::steady_clock::now() - last.when < MemoryInfo::kFresh;
    if (!fresh) {
        last.context = 0;
        const uint64_t sent = session()->sent(), heard = session()->heard();
        if (CUresult r = remote<CallId::cuMemGetInfo_v2>(&last.free, &last.total)) return r;
        last.sent = sent + 1, last.heard = heard + 1;
        last.when = std::chrono::steady_clock::now();
        last.context = current_context();
    }
    if (free) *free = last.free;
    if (total) *total = last.total;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
    return in_one_space(
        out, [&] { return bytes; }, [&] { return remote<CallId::cuMemAlloc_v2>(out, bytes); },
        [](CUdeviceptr p) { remote<CallId::cuMemFree_v2>(p); },
        [&] { note_allocation(*out, bytes); });
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                            unsigned element)
{
    if (!pitch) return CUDA_ERROR_INVALID_VALUE;
    return in_one_space(
        out, [&] { return *pitch * height; },
        [&] { return remote<CallId::cuMemAllocPitch_v2>(out, pitch, width, height, element); },
        [](CUdeviceptr p) { remote<CallId::cuMemFree_v2>(p); },
        [&] { note_allocation(*out, *pitch * height); });
}

CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags)
{
    if (!session()) return not_ready();
    if (CUresult r = context_state()) return r;
    if (!out || !bytes || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr base = 0;
    if (CUresult r = shared::allocate(shared::Kind::managed, bytes, base)) return r;
    Unless noted([&] { shared::give_back(base); });
    if (flags == CU_MEM_ATTACH_HOST) shared::set_any_time(base, true);
    note_managed(base, bytes);
    noted.keep();
    *out = base;
    return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr base)
{
    if (!session()) return not_ready();
    if (CUresult r = context_state()) return r;
    if (!base) return CUDA_SUCCESS;
    between::settle();
    const auto range = find_device(base);
    if (range && range->imported) return CUDA_ERROR_INVALID_VALUE;
    if (range && range->managed && range->base == base) {
        if (shared::find(base)->kind != shared::Kind::managed) return CUDA_ERROR_INVALID_VALUE;
        if (CUresult r = own::cuCtxSynchronize()) return r;
        if (!forget_allocation(base)) return CUDA_ERROR_INVALID_VALUE;
        shared::give_back(base);
        return CUDA_SUCCESS;
    }
    if (!forget_allocation(base)) return CUDA_ERROR_INVALID_VALUE;
    return remote<CallId::cuMemFree_v2>(base);
}

namespace {

// Memory that a stream gave; while there is a capture, perhaps a graph's.
void note_in_stream(CUdeviceptr base, size_t bytes)
{
    any_capture() ? note_graph_memory(base, bytes) : note_allocation(base, bytes);
}

}  // namespace

CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream)
{
    return in_one_space(
        out, [&] { return bytes; },
        [&] { return remote<CallId::cuMemAllocAsync>(out, bytes, stream); },
        [&](CUdeviceptr p) { remote<CallId::cuMemFreeAsync>(p, stream); },
        [&] { note_in_stream(*out, bytes); });
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    return in_one_space(
        out, [&] { return bytes; },
        [&] { return remote<CallId::cuMemAllocFromPoolAsync>(out, bytes, pool, stream); },
        [&](CUdeviceptr p) { remote<CallId::cuMemFreeAsync>(p, stream); },
        [&] { note_in_stream(*out, bytes); });
}

CUresult cuMemFreeAsync(CUdeviceptr base, CUstream stream)
{
    if (!session()) return not_ready();
    if (!stream)
        if (CUresult r = context_state()) return r;
    if (!base) return CUDA_SUCCESS;
    if (const auto range = find_device(base); range && range->imported)
        return CUDA_ERROR_INVALID_VALUE;
    if (const auto owner = spanning() ? owner_of_address(base) : std::nullopt;
        owner && owner->server != here()) {
        if (CUresult r = own::cuStreamSynchronize(stream)) return r;
        const At at(owner->server, owner->context);
        return own::cuMemFree_v2(base);
    }
    if (!forget_allocation(base)) return CUDA_ERROR_INVALID_VALUE;
    return remote<CallId::cuMemFreeAsync>(base, stream);
}

CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned int flags)
{
    return allocate_host(out, bytes, flags);
}
CUresult cuMemAllocHost_v2(void **out, size_t bytes) { return allocate_host(out, bytes, 0); }
CUresult cuMemAllocHost(void **out, unsigned int bytes) { return allocate_host(out, bytes, 0); }

namespace {

// Copies of other servers' streams that use memory of the program are over.
void settle_elsewhere()
{
    between::settle();
    if (!spanning()) return;
    for (unsigned s = 0; s < server_count(); s++)
        if (s != here()) session_at(s)->wait_for_copies();
}

}  // namespace

CUresult cuMemFreeHost(void *p)
{
    if (!session()) return not_ready();
    HostRange range;
    {
        std::lock_guard lock(ranges().mutex);
        auto it = ranges().host.find(reinterpret_cast<uintptr_t>(p));
        if (it == ranges().host.end() || !it->second.allocated) return CUDA_ERROR_INVALID_VALUE;
        range = it->second;
        ranges().host.erase(it);
    }
    // Work that still reads or writes these pages must end before they go, as in CUDA.
    const At at(Handles::get().at(range.context)->server);
    CUresult r = current_context() && is_here(current_context()) ? own::cuCtxSynchronize()
                                                                 : CUDA_SUCCESS;
    settle_elsewhere();
    if (shared::find(range.base))
        shared::give_back(range.base);
    else
        munmap(p, whole_pages(range.bytes));
    return r;
}

CUresult cuMemHostGetFlags(unsigned int *flags, void *p)
{
    if (!session()) return not_ready();
    auto range = find_host(p);
    if (!flags || !range || !range->allocated) return CUDA_ERROR_INVALID_VALUE;
    // With unified addressing all of it is mapped, CUDA says.
    *flags = range->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned int flags)
{
    if (!session()) return not_ready();
    if (CUresult r = context_state()) return r;
    constexpr unsigned kFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
    if (!p || !bytes || flags & ~kFlags) return CUDA_ERROR_INVALID_VALUE;
    if (find_host(p)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    auto base = reinterpret_cast<uintptr_t>(p);
    {
        std::lock_guard lock(ranges().mutex);
        ranges().host[base] = {base, bytes, flags, false, current_context(), current_device()};
    }
    shared::note_registration(base, 1);
    return CUDA_SUCCESS;
}
CUresult cuMemHostRegister(void *p, size_t bytes, unsigned int flags)
{
    return own::cuMemHostRegister_v2(p, bytes, flags);
}

CUresult cuMemHostUnregister(void *p)
{
    if (!session()) return not_ready();
    const auto base = reinterpret_cast<uintptr_t>(p);
    auto range = find_host(p);
    if (!range || range->allocated || range->base != base)
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    settle_elsewhere();
    // Kernels that use it must end before, as in CUDA.
    if (shared::device_address(p))
        if (CUresult r = own::cuCtxSynchronize()) return r;
    for (unsigned s = 0; spanning() && s < server_count(); s++) {
        const At at(s);
        const auto mirror = shared::device_address(p);
        if (const auto b = mirror ? shared::find(*mirror) : std::nullopt;
            b && is_here(b->context)) {
            const At in(s, b->context);
            own::cuCtxSynchronize();
        }
    }
    {
        std::lock_guard lock(ranges().mutex);
        if (!ranges().host.erase(base)) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    }
    shared::note_registration(base, -1);
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *p, unsigned int flags)
{
    if (!session()) return not_ready();
    if (CUresult r = context_state()) return r;
    if (!out || flags) return CUDA_ERROR_INVALID_VALUE;
    const auto host = reinterpret_cast<uintptr_t>(p);
    auto range = find_host(p);
    if (!range) {  // managed memory is its own
        auto b = shared::find(host);
        *out = host;
        return b && b->kind == shared::Kind::managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    CUdeviceptr device = range->base;
    if (!range->allocated)
        if (CUresult r = shared::mirror(*range, device)) return r;
    if (!shared::find(device)) return CUDA_ERROR_NOT_SUPPORTED;
    if (CUresult r = shared::must_be_here(device)) return r;
    if (CUresult r = shared::share(device)) return r;
    *out = device + (host - range->base);
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
    if (!session()) return not_ready();
    auto range = find_device(address);
    if (!range) return remote<CallId::cuMemGetAddressRange_v2>(base, bytes, address);
    if (base) *base = range->base;
    if (bytes) *bytes = range->bytes;
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library,
                            const char *name)
{
    CUdeviceptr a = 0;
    size_t n = 0;
    CUresult r = remote<CallId::cuLibraryGetGlobal>(&a, &n, library, name);
    if (r) return r;
    if (!is_known_here(a)) note_allocation(a, n);
    if (address) *address = a;
    if (bytes) *bytes = n;
    return CUDA_SUCCESS;
}

}  // namespace own

}  // namespace rgpu::interpose
