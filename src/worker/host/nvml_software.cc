// SPDX-License-Identifier: Apache-2.0
// NVML for a software GPU: numbers of calls/nvml.def, and functions for what depends on more.
#include <cstdlib>

#include "worker/driver/driver.h"
#include "worker/host/nvml_call.h"

namespace rgpu::worker {
namespace {

using namespace rgpu::calls;

uint64_t attribute(CUdevice_attribute which, int device)
{
    int value = 0;
    return DRIVER(cuDeviceGetAttribute)(&value, which, device) ? 0 : static_cast<uint64_t>(value);
}

// BAR1 is as large as the memory, and nothing is mapped.
int bar1(NvmlCall &call)
{
    size_t total = 0;
    if (DRIVER(cuDeviceTotalMem_v2)(&total, call.device)) return kNvmlUnknown;
    auto *words = call.buffers[0].words.data();  // nvmlBAR1Memory_t: total, free, used
    words[0] = words[1] = total;
    words[2] = 0;
    return kNvmlSuccess;
}

// None of them is known: each says so.
int field_values(NvmlCall &call)
{
    struct FieldValue {
        uint32_t field, scope;
        int64_t time, latency;
        uint32_t type, result;
        uint64_t value;
    };
    NvmlBuffer &b = call.buffers[0];
    static_assert(sizeof(FieldValue) == 40);
    auto *values = static_cast<FieldValue *>(b.data());
    for (uint32_t i = 0; i < b.count; i++) values[i].result = kNvmlNotSupported;
    return kNvmlSuccess;
}

int cores(NvmlCall &call)
{
    constexpr int kOfProcessor = 128;
    call.buffers[0].set(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, call.device) *
                        kOfProcessor);
    return kNvmlSuccess;
}

int p2p_status(NvmlCall &call)
{
    constexpr int kOk = 0, kChipset = 1;
    int can = call.device == call.peer;
    if (!can) DRIVER(cuDeviceCanAccessPeer)(&can, call.device, call.peer);
    call.buffers[0].set(can ? kOk : kChipset);
    return kNvmlSuccess;
}

int common_ancestor(NvmlCall &call)
{
    constexpr int kInternal = 0, kNode = 40;
    call.buffers[0].set(call.device == call.peer ? kInternal : kNode);
    return kNvmlSuccess;
}

constexpr struct {
    std::string_view name;
    int (*answer)(NvmlCall &);
} kAnswers[] = {
    {"nvmlDeviceGetBAR1MemoryInfo", bar1},
    {"nvmlDeviceGetFieldValues", field_values},
    {"nvmlDeviceGetNumGpuCores", cores},
    {"nvmlDeviceGetP2PStatus", p2p_status},
    {"nvmlDeviceGetTopologyCommonAncestor", common_ancestor},
};

}  // namespace

int answer_software(NvmlCall &call)
{
    const std::string_view text = call.function->software;
    if (text == "*")
        for (const auto &one : kAnswers)
            if (one.name == call.function->name) return one.answer(call);
    if (text == "*" || text == "-") return kNvmlNotSupported;
    const std::vector<uint64_t> numbers = calls::nvml_numbers(*call.function);
    for (size_t i = 0; i < call.buffers.size(); i++)
        call.buffers[i].set(i < numbers.size() ? numbers[i] : 0);
    return kNvmlSuccess;
}

}  // namespace rgpu::worker
