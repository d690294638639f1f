# SPDX-License-Identifier: Apache-2.0
"""Holds 64 MiB of the GPU while nvml_gpus.py, another program of the same lease, looks at it."""
import os
import subprocess
import sys
import ctypes as c

cuda = c.CDLL("libcuda.so.1")
ctx, p = c.c_void_p(), c.c_uint64()
assert (
    cuda.cuInit(0) == 0
    and cuda.cuDevicePrimaryCtxRetain(c.byref(ctx), 0) == 0
    and cuda.cuCtxSetCurrent(ctx) == 0
)
assert cuda.cuMemAlloc_v2(c.byref(p), 64 << 20) == 0
sys.exit(
    subprocess.run(["python3", os.path.dirname(sys.argv[0]) + "/nvml_gpus.py", "memory"]).returncode
)
