# SPDX-License-Identifier: Apache-2.0
"""nvml_gpus.py [memory]: each GPU's UUID as libnvidia-ml.so.1 tells it; with "memory", MiB in all
and used.

Checks what its functions answer before nvmlInit, after nvmlShutdown and for wrong arguments."""
import sys
import ctypes as c

nvml = c.CDLL("libnvidia-ml.so.1")


class Memory(c.Structure):
    _fields_ = [("total", c.c_ulonglong), ("free", c.c_ulonglong), ("used", c.c_ulonglong)]


n, device, text, memory, index = (
    c.c_uint(),
    c.c_void_p(),
    c.create_string_buffer(96),
    Memory(),
    c.c_uint(),
)
assert nvml.nvmlDeviceGetCount_v2(c.byref(n)) == 1, "before nvmlInit"
assert nvml.nvmlDeviceGetSerial(None, text, 96) == 1, "before nvmlInit"
assert nvml.nvmlInit_v2() == 0
assert nvml.nvmlDeviceGetCount_v2(c.byref(n)) == 0
assert nvml.nvmlDeviceGetHandleByIndex_v2(n.value, c.byref(device)) == 2
for i in range(n.value):
    assert nvml.nvmlDeviceGetHandleByIndex_v2(i, c.byref(device)) == 0
    assert nvml.nvmlDeviceGetUUID(device, text, 96) == 0
    assert nvml.nvmlDeviceGetUUID(device, text, 10) == 7
    assert nvml.nvmlDeviceGetMemoryInfo(c.c_void_p(1234), c.byref(memory)) == 2
    if len(sys.argv) > 1:
        assert nvml.nvmlDeviceGetSerial(device, c.create_string_buffer(96), 96) == 3
        assert nvml.nvmlDeviceGetMemoryInfo(device, c.byref(memory)) == 0
    print(text.value.decode(), memory.total >> 20, memory.used >> 20)
assert nvml.nvmlShutdown() == 0 and nvml.nvmlShutdown() == 1
