# SPDX-License-Identifier: Apache-2.0
"""Each GPU as nvidia-ml-py sees it: name, MiB in all, MiB used, compute capability, MiB again."""
from pynvml import (
    NVMLError_NotSupported,
    nvmlDeviceGetCount,
    nvmlDeviceGetCudaComputeCapability,
    nvmlDeviceGetEccMode,
    nvmlDeviceGetHandleByIndex,
    nvmlDeviceGetHandleByPciBusId,
    nvmlDeviceGetHandleByUUID,
    nvmlDeviceGetIndex,
    nvmlDeviceGetMemoryInfo,
    nvmlDeviceGetName,
    nvmlDeviceGetPciInfo,
    nvmlDeviceGetUUID,
    nvmlInit,
    nvmlMemory_v2,
    nvmlShutdown,
)

nvmlInit()
for i in range(nvmlDeviceGetCount()):
    d = nvmlDeviceGetHandleByIndex(i)
    m = nvmlDeviceGetMemoryInfo(d)
    assert nvmlDeviceGetIndex(nvmlDeviceGetHandleByUUID(nvmlDeviceGetUUID(d))) == i
    assert nvmlDeviceGetIndex(nvmlDeviceGetHandleByPciBusId(nvmlDeviceGetPciInfo(d).busId)) == i
    try:
        nvmlDeviceGetEccMode(d)
    except NVMLError_NotSupported:
        pass
    print(
        nvmlDeviceGetName(d),
        m.total >> 20,
        m.used >> 20,
        nvmlDeviceGetCudaComputeCapability(d),
        nvmlDeviceGetMemoryInfo(d, nvmlMemory_v2).total >> 20,
    )
nvmlShutdown()
