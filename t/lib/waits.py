# SPDX-License-Identifier: Apache-2.0
"""A program with a GPU that waits in the middle for a line on its standard input, and copies from
the GPU then."""
import ctypes, sys

cuda = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
for r in (
    cuda.cuInit(0),
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
    cuda.cuCtxSetCurrent(context),
    cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 20)),
):
    assert r == 0, r
print("ready", flush=True)
sys.stdin.readline()
data = ctypes.create_string_buffer(1 << 20)
print("then", cuda.cuMemcpyDtoH_v2(data, address, ctypes.c_size_t(1 << 20)), flush=True)
