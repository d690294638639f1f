// SPDX-License-Identifier: Apache-2.0
#include "interpose/state/ranges.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>

#include "interpose/base/log.h"
#include "interpose/state/advices.h"
#include "interpose/state/client.h"
#include "interpose/state/servers.h"

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
    // Of cuMemAddressReserve.
    struct Reservation {
        CUdeviceptr base = 0;
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

Hull &hull() { return client_part<Hull>(Part::device_hull); }

Ranges &ranges() { return client_part<Ranges>(Part::ranges); }

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

}  // namespace

void reserve_device_range(const ServerSession &session)
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

void note_access(CUdeviceptr base, size_t bytes, CUmemAccess_flags flags)
{
    std::lock_guard lock(ranges().mutex);
    for (auto &[address, range] : ranges().device())
        if (range.mapped && address >= base && address - base < bytes)
            range.no_access = flags == CU_MEM_ACCESS_FLAGS_PROT_NONE,
            range.read_only = flags == CU_MEM_ACCESS_FLAGS_PROT_READ;
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
    advices().forget(base, bytes);  // of what was there before
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
    client_counter(Counter::graph_memory) = 1;
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

void forget_ranges(HandleId context)
{
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

std::optional<AddressOwner> owner_of_range(CUdeviceptr address)
{
    std::lock_guard lock(ranges().mutex);
    AddressOwner owner;
    if (DeviceRange *r = holding(address, &owner.server)) {
        owner.context = r->context;
        return owner;
    }
    auto *r = holding(ranges().reservations, address);
    return r ? std::optional(r->owner) : std::nullopt;
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

bool is_range_elsewhere(CUdeviceptr base, size_t bytes)
{
    if (!spanning()) return false;
    const unsigned mine = here();
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

bool is_reserved(CUdeviceptr base, size_t bytes)
{
    if (!bytes || base + bytes < base) return false;
    std::lock_guard lock(ranges().mutex);
    for (const CUdeviceptr end = base + bytes; base < end;) {
        const auto *r = holding(ranges().reservations, base);
        if (!r) return false;
        base = r->base + r->bytes;
    }
    return true;
}

void note_reservation(CUdeviceptr base, size_t bytes)
{
    std::lock_guard lock(ranges().mutex);
    ranges().reservations[base] = {base, bytes, {here(), current_context()}};
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

std::optional<bool> is_allocated(CUdeviceptr &address, size_t bytes, Access access)
{
    auto range = find_device(address);
    // Virtual memory is mapped piece by piece: what adjoins is one range.
    for (; range; range = find_device(address)) {
        if (range->no_access || (range->read_only && access == Access::write)) return false;
        const size_t here = range->base + range->bytes - address;
        if (bytes <= here) return true;
        address += here, bytes -= here;
        if (!range->mapped) return false;
    }
    return std::nullopt;
}

bool is_server_address(CUdeviceptr address)
{
    for (unsigned s = 0; s < server_count(); s++)
        if (const Ranges::Known &k = ranges().known.at(s); address >= k.base && address < k.end)
            return true;
    return find_device(address).has_value();
}

bool knows_place_of_memory() { return ranges().known().end != 0; }

void note_host(const HostRange &range)
{
    std::lock_guard lock(ranges().mutex);
    ranges().host[range.base] = range;
}

void forget_mapped_host(uintptr_t base)
{
    std::lock_guard lock(ranges().mutex);
    ranges().host.erase(base);
}

std::optional<HostRange> forget_host(uintptr_t base, bool allocated)
{
    std::lock_guard lock(ranges().mutex);
    auto it = ranges().host.find(base);
    if (it == ranges().host.end() || it->second.allocated != allocated || it->second.mapped)
        return std::nullopt;
    const HostRange range = it->second;
    ranges().host.erase(it);
    return range;
}

std::unique_lock<std::mutex> hold_space()
{
    auto &space = client_part<std::mutex>(Part::address_space);
    return spanning() ? std::unique_lock(space) : std::unique_lock<std::mutex>();
}

}  // namespace rgpu::interpose
