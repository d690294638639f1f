# SPDX-License-Identifier: Apache-2.0
"""use_gpu_until.py BEGUN END: uses its GPU again and again until the file END is there, and once
more then.

Makes the file BEGUN when it has begun. Exits 0 if it could each time."""
import ctypes
import os
import sys
import time

cu = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()


def use():
    address = ctypes.c_uint64()
    for r in (
        cu.cuMemAlloc_v2(ctypes.byref(address), 4096),
        cu.cuMemsetD8_v2(address, 1, ctypes.c_size_t(4096)),
        cu.cuCtxSynchronize(),
        cu.cuMemFree_v2(address),
    ):
        if r:
            sys.exit(f"error {r}")


for r in (
    cu.cuInit(0),
    cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
    cu.cuCtxSetCurrent(context),
):
    if r:
        sys.exit(f"error {r}")
use()
open(sys.argv[1], "w").close()
while not os.path.exists(sys.argv[2]):
    use()
    time.sleep(0.05)
use()
print("used to the end")
