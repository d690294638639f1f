# SPDX-License-Identifier: Apache-2.0
"""What a program of torchrun's sees, and which GPU it takes."""
import ctypes
import os

cu = ctypes.CDLL("libcuda.so.1")
count, device, name = ctypes.c_int(), ctypes.c_int(), (ctypes.c_ubyte * 16)()
local = int(os.environ["LOCAL_RANK"])
for r in (
    cu.cuInit(0),
    cu.cuDeviceGetCount(ctypes.byref(count)),
    cu.cuDeviceGet(ctypes.byref(device), local),
    cu.cuDeviceGetUuid_v2(name, device),
):
    assert r == 0, r
print(
    *(
        os.environ[n]
        for n in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "SLURMD_NODENAME")
    ),
    "of",
    count.value,
    "GPU-" + bytes(name).hex()
)
