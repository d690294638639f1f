# SPDX-License-Identifier: Apache-2.0
"""Copies to the GPU and back, synchronous and asynchronous, of sizes from 1 byte to 64 MiB."""
import ctypes
import os

cuda = ctypes.CDLL("libcuda.so.1")


def check(r):
    assert r == 0, r


context, stream, pinned = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
check(cuda.cuInit(0))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(cuda.cuCtxSetCurrent(context))
check(cuda.cuStreamCreate(ctypes.byref(stream), 0))
most = 64 << 20
check(cuda.cuMemHostAlloc(ctypes.byref(pinned), ctypes.c_size_t(most), 0))
address = ctypes.c_uint64()
check(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(most)))
block = os.urandom(1 << 20)
for size in (1, 4096, 8193, 32 << 10, 65535, 65536, 1 << 20, (1 << 20) + 1, most):
    data = (block * (size // len(block) + 1))[:size]
    n = ctypes.c_size_t(size)
    there = ctypes.create_string_buffer(size)
    check(cuda.cuMemcpyHtoD_v2(address, data, n))
    check(cuda.cuMemcpyDtoH_v2(there, address, n))
    assert there.raw == data, size
    ctypes.memmove(pinned, data, size)
    check(cuda.cuMemsetD8_v2(address, 0, n))
    check(cuda.cuMemcpyHtoDAsync_v2(address, pinned, n, stream))
    check(cuda.cuStreamSynchronize(stream))
    ctypes.memset(pinned, 1, size)
    check(cuda.cuMemcpyDtoHAsync_v2(pinned, address, n, stream))
    check(cuda.cuStreamSynchronize(stream))
    assert ctypes.string_at(pinned, size) == data, size
