# SPDX-License-Identifier: Apache-2.0
"""What NVIDIA's nvidia-smi asks for beyond nvml.h: the internal export table, and events that never
come."""
import time
import ctypes as c

nvml = c.CDLL("libnvidia-ml.so.1")
table, events, data = c.POINTER(c.c_void_p)(), c.c_void_p(), (c.c_ulonglong * 8)()
known = bytes.fromhex("c4fe3e6cc98f6c4ea327ee696e12f7c4")
assert nvml.nvmlInternalGetExportTable(c.byref(table), known) == 0
entries = [c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p)(table[i]) for i in range(1, table[0] // 8)]
assert len(entries) > 212 and {f(None, None) for f in entries} == {1}, "before nvmlInit"
assert nvml.nvmlInit_v2() == 0 and {f(None, None) for f in entries} == {3}, "not supported"
assert nvml.nvmlInternalGetExportTable(c.byref(table), bytes(16)) == 6, "another table"
assert nvml.nvmlEventSetCreate(c.byref(events)) == 0
start = time.monotonic()
assert (
    nvml.nvmlEventSetWait_v2(events, c.byref(data), 50) == 10 and time.monotonic() - start > 0.04
), "no event comes"
assert nvml.nvmlEventSetFree(events) == 0
