# SPDX-License-Identifier: Apache-2.0
"""Calls cuMemGetInfo_v2, which the server lacks, and then one that it has; prints both results."""
import ctypes as c

cuda = c.CDLL('libcuda.so.1')
ctx, free, total, stream, priority = (
    c.c_void_p(),
    c.c_size_t(),
    c.c_size_t(),
    c.c_void_p(),
    c.c_int(),
)
assert (
    cuda.cuInit(0) == 0
    and cuda.cuDevicePrimaryCtxRetain(c.byref(ctx), 0) == 0
    and cuda.cuCtxSetCurrent(ctx) == 0
)
print(cuda.cuMemGetInfo_v2(c.byref(free), c.byref(total)), cuda.cuCtxSynchronize())
