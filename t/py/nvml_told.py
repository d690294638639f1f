# SPDX-License-Identifier: Apache-2.0
"""Asks the made-up NVML of t/lib/told_nvml.cc through a lease of two GPUs."""

import ctypes

import pynvml as n

n.nvmlInit()
a, b = (n.nvmlDeviceGetHandleByIndex(i) for i in (0, 1))
nvml = ctypes.CDLL('libnvidia-ml.so.1')
print(n.nvmlDeviceGetCurrPcieLinkGeneration(a), n.nvmlDeviceGetCurrPcieLinkGeneration(b))
print(n.nvmlDeviceGetSerial(b))
short = ctypes.create_string_buffer(4)
print('short', nvml.nvmlDeviceGetSerial(a, short, 4))
print([n.nvmlDeviceGetP2PStatus(x, y, 3) for x in (a, b) for y in (a, b)])
print(n.nvmlDeviceGetTotalEccErrors(b, 1, 1) - (1 << 40))
print(n.nvmlDeviceGetSupportedMemoryClocks(a))
print([value.value.ullVal for value in n.nvmlDeviceGetFieldValues(a, [7, 21])])
fan = (ctypes.c_uint * 3)(12 | 1 << 24, 2, 0)
print('fan', nvml.nvmlDeviceGetFanSpeedRPM(a, fan), fan[2])
fan = (ctypes.c_uint * 3)(8 | 1 << 24, 2, 0)
print('older fan', nvml.nvmlDeviceGetFanSpeedRPM(a, fan))
fan = (ctypes.c_uint * 3)(1, 2, 0)
print('odd fan', nvml.nvmlDeviceGetFanSpeedRPM(a, fan))
pci = n.nvmlDeviceGetPciInfo(b)
print(
    'link',
    n.nvmlDeviceGetNvLinkRemotePciInfo(a, 0).busId == pci.busId,
    n.nvmlDeviceGetNvLinkRemotePciInfo(a, 1).busId,
)
print('lost', nvml.nvmlDeviceGetPowerSource(a, fan))
print('absent', nvml.nvmlDeviceGetIrqNum(a, fan))
print('null', nvml.nvmlDeviceGetIrqNum(a, None), nvml.nvmlDeviceGetIrqNum(None, fan))
