# SPDX-License-Identifier: Apache-2.0
"""A program that copies to the GPU and back: pack_copies.py text|noise MEGABYTES [ROUNDS]

What comes back must be what went, bit for bit, and other bytes each round: first by copies that
wait, then by copies in a stream. Prints "ok".
"""
import ctypes
import os
import sys

kind, size, rounds = (
    sys.argv[1],
    int(sys.argv[2]) << 20,
    int(sys.argv[3]) if len(sys.argv) > 3 else 1,
)
cuda = ctypes.CDLL("libcuda.so.1")


def check(result):
    assert result == 0, result


def content(n):
    if kind == "noise":
        return os.urandom(size)
    block = b"".join(b"%d: call %d, frame %d\n" % (n, i, i * i) for i in range(40000))
    return (block * (size // len(block) + 1))[:size]


context, stream, pinned, address = (
    ctypes.c_void_p(),
    ctypes.c_void_p(),
    ctypes.c_void_p(),
    ctypes.c_uint64(),
)
check(cuda.cuInit(0))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(cuda.cuCtxSetCurrent(context))
check(cuda.cuStreamCreate(ctypes.byref(stream), 0))
n = ctypes.c_size_t(size)
check(cuda.cuMemAlloc_v2(ctypes.byref(address), n))
check(cuda.cuMemHostAlloc(ctypes.byref(pinned), n, 0))
here = ctypes.create_string_buffer(size)
for i in range(rounds):
    data = content(i)
    if i % 2 == 0:
        check(cuda.cuMemcpyHtoD_v2(address, data, n))
        check(cuda.cuMemcpyDtoH_v2(here, address, n))
        assert here.raw == data, i
    else:
        ctypes.memmove(pinned, data, size)
        check(cuda.cuMemcpyHtoDAsync_v2(address, pinned, n, stream))
        check(cuda.cuStreamSynchronize(stream))
        ctypes.memset(pinned, 0, size)
        check(cuda.cuMemcpyDtoHAsync_v2(pinned, address, n, stream))
        check(cuda.cuStreamSynchronize(stream))
        assert ctypes.string_at(pinned, size) == data, i
print("ok")
