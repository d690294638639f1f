# SPDX-License-Identifier: Apache-2.0
"""The results of NVML for the number of GPUs, and for the handle and memory of each."""
import ctypes

nvml, n = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_uint()
print(nvml.nvmlInit_v2(), nvml.nvmlDeviceGetCount_v2(ctypes.byref(n)), n.value)
for i in range(n.value):
    device, memory = ctypes.c_void_p(), (ctypes.c_ulonglong * 3)()
    print(
        nvml.nvmlDeviceGetHandleByIndex_v2(i, ctypes.byref(device)),
        nvml.nvmlDeviceGetMemoryInfo(device, memory),
        memory[0],
    )
