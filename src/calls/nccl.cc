// SPDX-License-Identifier: Apache-2.0
#include "calls/nccl.h"

#include <algorithm>
#include <iterator>

namespace rgpu::calls {
namespace {

// In the order of their names, as the lines are.
constexpr NcclFunction kFunctions[] = {
#define GROUPED(name, parameters) {#name, parameters, NcclWay::grouped},
#define ONCE(name, parameters) {#name, parameters, NcclWay::once},
#define HERE(name) {#name, "", NcclWay::here},
#define NONE(name) {#name, "", NcclWay::none},
#include "calls/nccl.def"
};
static_assert(std::is_sorted(std::begin(kFunctions), std::end(kFunctions),
                             [](const NcclFunction &a, const NcclFunction &b) {
                                 return a.name < b.name;
                             }));

// What tunes NCCL, or makes it talk.
constexpr std::string_view kVariables[] = {
    "NCCL_ALGO",
    "NCCL_ALLOC_P2P_NET_LL_BUFFERS",
    "NCCL_BUFFSIZE",
    "NCCL_CGA_CLUSTER_SIZE",
    "NCCL_CHECKS_DISABLE",
    "NCCL_CHECK_POINTERS",
    "NCCL_COLLNET_ENABLE",
    "NCCL_COMM_BLOCKING",
    "NCCL_COMM_SHRINK_SHARE_RESOURCES",
    "NCCL_COMM_SPLIT_SHARE_RESOURCES",
    "NCCL_CROSS_NIC",
    "NCCL_CTA_POLICY",
    "NCCL_CUMEM_ENABLE",
    "NCCL_CUMEM_HOST_ENABLE",
    "NCCL_DEBUG",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_DEBUG_TIMESTAMP_FORMAT",
    "NCCL_DMABUF_ENABLE",
    "NCCL_GRAPH_MIXING_SUPPORT",
    "NCCL_GRAPH_REGISTER",
    "NCCL_IB_DISABLE",
    "NCCL_IB_RETRY_CNT",
    "NCCL_IB_TIMEOUT",
    "NCCL_IGNORE_CPU_AFFINITY",
    "NCCL_IGNORE_DISABLED_P2P",
    "NCCL_L1_SHARED_MEMORY_CARVEOUT",
    "NCCL_LAUNCH_MODE",
    "NCCL_LAUNCH_ORDER_IMPLICIT",
    "NCCL_LL128_BUFFSIZE",
    "NCCL_LL_BUFFSIZE",
    "NCCL_LOCAL_REGISTER",
    "NCCL_MAX_CTAS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MAX_P2P_NCHANNELS",
    "NCCL_MIN_CTAS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MIN_P2P_NCHANNELS",
    "NCCL_NCHANNELS_PER_NET_PEER",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_GDR_READ",
    "NCCL_NTHREADS",
    "NCCL_NVB_DISABLE",
    "NCCL_NVLSTREE_MAX_CHUNKSIZE",
    "NCCL_NVLS_CHUNKSIZE",
    "NCCL_NVLS_ENABLE",
    "NCCL_P2P_CHUNKSIZE",
    "NCCL_P2P_DIRECT_DISABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_P2P_NVL_CHUNKSIZE",
    "NCCL_P2P_PCI_CHUNKSIZE",
    "NCCL_PROGRESS_APPENDOP_FREQ",
    "NCCL_PROTO",
    "NCCL_PXN_DISABLE",
    "NCCL_RUNTIME_CONNECT",
    "NCCL_SET_THREAD_NAME",
    "NCCL_SHM_DISABLE",
    "NCCL_SHM_LOCALITY",
    "NCCL_SINGLE_RING_THRESHOLD",
    "NCCL_SOCKET_NTHREADS",
    "NCCL_SOCKET_RETRY_CNT",
    "NCCL_SYM_CTAS",
    "NCCL_THREAD_THRESHOLDS",
    "NCCL_WIN_ENABLE",
    "NCCL_WORK_FIFO_BYTES",
};

}  // namespace

const NcclFunction *find_nccl(std::string_view name)
{
    const auto found = std::lower_bound(
        std::begin(kFunctions), std::end(kFunctions), name,
        [](const NcclFunction &f, std::string_view wanted) { return f.name < wanted; });
    return found == std::end(kFunctions) || found->name != name ? nullptr : found;
}

size_t nccl_count() { return std::size(kFunctions); }
const NcclFunction &nccl_at(size_t i) { return kFunctions[i]; }

bool nccl_variable(std::string_view name)
{
    return std::find(std::begin(kVariables), std::end(kVariables), name) != std::end(kVariables);
}

bool nccl_value(std::string_view value)
{
    // No path, and nothing that a terminal would take for more than text.
    return value.size() <= kMostNcclText && std::all_of(value.begin(), value.end(), [](char c) {
               return c >= ' ' && c <= '~' && c != '/';
           });
}

}  // namespace rgpu::calls
