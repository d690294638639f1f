# SPDX-License-Identifier: Apache-2.0
"""Asks the software GPU's own NVML about two GPUs.

softgpu_nvml.py errors   what it answers to wrong questions, as numbers; needs no package
softgpu_nvml.py peers    how the GPUs reach each other, and the memory in use when a program has
                         64 MiB on the second; needs nvidia-ml-py
"""
import ctypes
import sys


def errors():
    nvml = ctypes.CDLL('libnvidia-ml.so.1')
    n, handle = ctypes.c_uint(7), ctypes.c_void_p()
    count, init, end = nvml.nvmlDeviceGetCount_v2, nvml.nvmlInit_v2, nvml.nvmlShutdown
    answers = [count(ctypes.byref(n)), init(), init(), count(ctypes.byref(n)), n.value]
    print(*answers, end(), end(), end())
    init()
    print(*(nvml.nvmlDeviceGetHandleByIndex_v2(i, ctypes.byref(handle)) for i in (2, 1)))
    print(
        nvml.nvmlDeviceGetName(handle, ctypes.create_string_buffer(5), 5),
        nvml.nvmlDeviceGetIndex(ctypes.c_void_p(77), ctypes.byref(n)),
        nvml.nvmlDeviceGetHandleByPciBusId_v2(b'0000:77:00.0', ctypes.byref(handle)),
        nvml.nvmlDeviceSetPersistenceMode(handle, 1),
    )


def peers():
    import pynvml as n

    n.nvmlInit()
    a, b = (n.nvmlDeviceGetHandleByIndex(i) for i in (0, 1))
    print([n.nvmlDeviceGetP2PStatus(a, b, i) for i in range(3)])
    print(n.nvmlDeviceGetCurrPcieLinkWidth(a), n.nvmlSystemGetCudaDriverVersion())
    cuda = ctypes.CDLL('libcuda.so.1')
    context, address = ctypes.c_void_p(), ctypes.c_uint64()
    assert not cuda.cuInit(0)
    assert not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1)
    assert not cuda.cuCtxSetCurrent(context)
    assert not cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(64 << 20))
    print([n.nvmlDeviceGetMemoryInfo(d).used >> 20 for d in (a, b)])


errors() if sys.argv[1] == 'errors' else peers()
