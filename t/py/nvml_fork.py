# SPDX-License-Identifier: Apache-2.0
"""The child of a fork asks NVML for a GPU and its compute capability."""
import os
import ctypes as c

nvml = c.CDLL("libnvidia-ml.so.1")
d, v = c.c_void_p(), c.c_int()
assert (
    nvml.nvmlInit_v2() == 0
    and nvml.nvmlSystemGetCudaDriverVersion_v2(c.byref(v)) == 0
    and v.value >= 12000
)
if os.fork() == 0:
    os._exit(
        0
        if nvml.nvmlDeviceGetHandleByIndex_v2(0, c.byref(d)) == 0
        and nvml.nvmlDeviceGetCudaComputeCapability(d, c.byref(v), c.byref(v)) == 0
        else 1
    )
assert os.wait()[1] == 0
