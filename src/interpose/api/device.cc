// SPDX-License-Identifier: Apache-2.0
// Devices: answered from the snapshot, but for what changes.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <strings.h>

#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"
#include "wire/status.h"

namespace rgpu::interpose::own {

namespace {

// Runs `answer` on device `d`'s snapshot, with the errors that every device query shares.
template <class Answer> CUresult ask(CUdevice d, const void *out, Answer &&answer)
{
    if (!session()) return not_ready();
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    const wire::DeviceSnapshot *s = device(d);
    if (!s) return CUDA_ERROR_INVALID_DEVICE;
    return answer(*s);
}

// Programs ask when they start, and the snapshot is new then. Later the lease may have got another
// size (rgpu resize): the server knows, and where it cannot be asked, it is as it was.
uint64_t total_memory(CUdevice d, const wire::DeviceSnapshot &s)
{
    constexpr auto kNew = std::chrono::seconds(1);
    constexpr auto kCall = static_cast<calls::CallId>(wire::kStatusCall);
    ServerSession *const at = session_at(server_of(d));
    const auto place = static_cast<uint64_t>(&s - at->snapshot().devices.data());
    Reply reply;
    if (at->age() < kNew || at->ask(
                                kCall, calls::kNoHandle, [](wire::Writer &) {}, reply))
        return s.total_memory;
    wire::Reader r(reply.body.data(), reply.body.size());
    wire::DeviceStatus status;
    const uint64_t count = r.count(sizeof status);
    for (uint64_t i = 0; place < count && i <= place; i++) status = r.value<wire::DeviceStatus>();
    return r.ok() && status.memory_total > 0 ? static_cast<uint64_t>(status.memory_total)
                                             : s.total_memory;
}

// What is otherwise for a program whose memory is not the GPU server's (interpose/mirror/mirror.h).
int seen_from_here(const wire::DeviceSnapshot &s, CUdevice_attribute which)
{
    switch (which) {
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST:
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
    case CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM: return 0;
    // No GPU is near any of this host's nodes.
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID: return -1;
    // What the table of calls refuses: programs that see a 1 go on to use it.
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS: return 0;
    // Descriptors are the one form that travels.
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
        return server_has(CallId::cuMemImportFromShareableHandle) && s.attributes[which];
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
        return server_has(CallId::cuMemPoolImportFromShareableHandle)
                   ? s.attributes[which] & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                   : 0;
#if CUDA_VERSION >= 12080
    case CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK:
    case CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH: return 0;
#endif
#if CUDA_VERSION >= 12090
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED: return 0;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        return s.attributes[CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED];
#endif
#if CUDA_VERSION >= 13000
    case CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        return s.attributes[CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED];
#endif
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
        return s.attributes[which] &&
               s.attributes[CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED];
    default: return s.attributes[which];
    }
}

CUresult attribute(const wire::DeviceSnapshot &s, int *value, int which)
{
    if (which <= 0 || static_cast<size_t>(which) >= s.attributes.size())
        return CUDA_ERROR_INVALID_VALUE;
    auto status = static_cast<CUresult>(s.attribute_status[static_cast<size_t>(which)]);
    if (status == CUDA_SUCCESS) *value = seen_from_here(s, static_cast<CUdevice_attribute>(which));
    return status;
}

CUresult copy_text(char *to, int room, const std::string &text)
{
    if (room <= 0) return CUDA_ERROR_INVALID_VALUE;
    snprintf(to, static_cast<size_t>(room), "%s", text.c_str());
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuDeviceGet(CUdevice *out, int ordinal)
{
    return ask(ordinal, out, [&](auto &) { return *out = ordinal, CUDA_SUCCESS; });
}

CUresult cuDeviceGetCount(int *count)
{
    if (!session()) return not_ready();
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    *count = device_count();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int room, CUdevice d)
{
    return ask(d, name, [&](auto &s) { return copy_text(name, room, s.name); });
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice d)
{
    return ask(d, uuid, [&](auto &s) { return *uuid = s.uuid, CUDA_SUCCESS; });
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice d) { return own::cuDeviceGetUuid_v2(uuid, d); }

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice d)
{
    return ask(d, bytes, [&](auto &s) { return *bytes = total_memory(d, s), CUDA_SUCCESS; });
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice d)
{
    return ask(d, value, [&](auto &s) { return attribute(s, value, which); });
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice d)
{
    if (!major) return CUDA_ERROR_INVALID_VALUE;
    CUresult r = own::cuDeviceGetAttribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d);
    return r ? r
             : own::cuDeviceGetAttribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d);
}

CUresult cuDeviceGetPCIBusId(char *id, int room, CUdevice d)
{
    constexpr int kRoom = 13;  // CUDA asks for that much, with the end of the string
    return ask(d, id, [&](auto &s) {
        return room < kRoom ? CUDA_ERROR_INVALID_VALUE : copy_text(id, room, s.pci_bus_id);
    });
}

CUresult cuDeviceGetByPCIBusId(CUdevice *out, const char *id)
{
    if (!session()) return not_ready();
    if (!out || !id) return CUDA_ERROR_INVALID_VALUE;
    // The domain may be left out or be shorter than the four digits that drivers print.
    unsigned want[4] = {0, 0, 0, 0}, have[4];
    if (sscanf(id, "%x:%x:%x.%x", &want[0], &want[1], &want[2], &want[3]) < 3 &&
        (want[0] = 0, sscanf(id, "%x:%x.%x", &want[1], &want[2], &want[3])) < 2)
        return CUDA_ERROR_INVALID_VALUE;
    // Of several servers' the first: each counts its own.
    for (CUdevice d = 0; d < device_count(); d++)
        if (sscanf(device(d)->pci_bus_id.c_str(), "%x:%x:%x.%x", &have[0], &have[1], &have[2],
                   &have[3]) == 4 &&
            memcmp(want, have, sizeof want) == 0)
            return *out = d, CUDA_SUCCESS;
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice d, CUdevice peer)
{
    return ask(d, can, [&](auto &s) {
        if (!device(peer)) return CUDA_ERROR_INVALID_DEVICE;
        const bool apart = server_of(d) != server_of(peer);
        *can = !apart &&
               s.can_access_peer[static_cast<size_t>(
                   spanning() ? program_devices()[static_cast<size_t>(peer)].number : peer)];
        return CUDA_SUCCESS;
    });
}

// Between two servers: no access, so no rank and no atomics.
CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute which, CUdevice from,
                                 CUdevice to)
{
    if (!session()) return not_ready();
    const bool apart = device(from) && device(to) && server_of(from) != server_of(to);
    if (!apart) return remote<CallId::cuDeviceGetP2PAttribute>(value, which, from, to);
    if (!value || which < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK) return CUDA_ERROR_INVALID_VALUE;
    *value = 0;
    return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 13000
CUresult cuDeviceGetP2PAtomicCapabilities(unsigned int *capabilities,
                                          const CUatomicOperation *operations, unsigned int count,
                                          CUdevice from, CUdevice to)
{
    if (!session()) return not_ready();
    const bool apart = device(from) && device(to) && server_of(from) != server_of(to);
    if (!apart)
        return remote<CallId::cuDeviceGetP2PAtomicCapabilities>(capabilities, operations, count,
                                                                from, to);
    if (!capabilities || !operations || !count) return CUDA_ERROR_INVALID_VALUE;
    std::fill_n(capabilities, count, 0);
    return CUDA_SUCCESS;
}
#endif

}  // namespace rgpu::interpose::own
