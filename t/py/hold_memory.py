# SPDX-License-Identifier: Apache-2.0
"""Holds device memory of device 0 until a file is there: hold_memory.py BYTES FILE."""

import ctypes
import os
import sys
import time

cuda = ctypes.CDLL('libcuda.so.1')
context, address = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(int(sys.argv[1]))) == 0
print(os.getpid(), flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.05)
