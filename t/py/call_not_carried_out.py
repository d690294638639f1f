# SPDX-License-Identifier: Apache-2.0
"""Makes calls that the server knows and does not carry out: found by name, asked, posted, and
copies."""
import ctypes as c

cuda = c.CDLL('libcuda.so.1')
ctx, free, total, stream, p, status = (
    c.c_void_p(),
    c.c_size_t(),
    c.c_size_t(),
    c.c_void_p(),
    c.c_void_p(),
    c.c_int(7),
)
assert (
    cuda.cuInit(0) == 0
    and cuda.cuDevicePrimaryCtxRetain(c.byref(ctx), 0) == 0
    and cuda.cuCtxSetCurrent(ctx) == 0
)
assert cuda.cuMemAlloc_v2(c.byref(p), c.c_size_t(4096)) == 0
found = c.c_void_p()
assert (
    cuda.cuGetProcAddress_v2(b'cuMemGetInfo', c.byref(found), 12000, c.c_uint64(0), c.byref(status))
    == 0
)
assert found.value == c.cast(cuda.cuMemGetInfo_v2, c.c_void_p).value
host, pinned = (c.c_ubyte * 4096)(), c.c_void_p()
assert cuda.cuMemHostAlloc(c.byref(pinned), c.c_size_t(4096), 0) == 0
print(
    status.value,
    cuda.cuMemGetInfo_v2(c.byref(free), c.byref(total)),  # asked
    cuda.cuMemsetD8Async(p, c.c_ubyte(1), c.c_size_t(4096), None),  # posted
    cuda.cuMemcpyDtoHAsync_v2(pinned, p, c.c_size_t(4096), None),  # a copy that nobody waits for
    cuda.cuMemcpyDtoH_v2(host, p, c.c_size_t(4096)),  # ... and one that is waited for
    cuda.cuMemcpyHtoD_v2(p, host, c.c_size_t(4096)),
    cuda.cuCtxSynchronize(),
)
