// SPDX-License-Identifier: Apache-2.0
// Events of devices: they can be asked for, and none is told of a remote GPU. A GPU that is lost
// ends the program's next call instead.
#include <poll.h>

#include <algorithm>

#include "nvml/answers.h"
#include "nvml/use.h"

namespace rgpu::nvml::answers {

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    static char any;
    return with_pool([&](Pool &) {
        return set ? (*set = reinterpret_cast<nvmlEventSet_t>(&any), NVML_SUCCESS)
                   : NVML_ERROR_INVALID_ARGUMENT;
    });
}
// As the server's driver has them; one that it does not know is refused, as NVIDIA does.
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                      nvmlEventSet_t set)
{
    unsigned long long known = 0;
    if (nvmlReturn_t r = ::nvmlDeviceGetSupportedEventTypes(device, &known)) return r;
    if (!set) return NVML_ERROR_INVALID_ARGUMENT;
    return types & ~known ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}
nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t)
{
    return with_pool([](Pool &) { return NVML_SUCCESS; });
}
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t, nvmlEventData_t *data, unsigned milliseconds)
{
    return with_pool([&](Pool &) -> nvmlReturn_t {
        if (!data) return NVML_ERROR_INVALID_ARGUMENT;
        poll(nullptr, 0, static_cast<int>(std::min(milliseconds, 1u << 30)));
        return NVML_ERROR_TIMEOUT;
    });
}
nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned milliseconds)
{
    return answers::nvmlEventSetWait_v2(set, data, milliseconds);
}

}  // namespace rgpu::nvml::answers
