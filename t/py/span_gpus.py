# SPDX-License-Identifier: Apache-2.0
"""span_gpus.py [FILE]: the places in the lease of the GPUs that libcuda.so.1 shows.

With a file: makes a context on each, the file, and allocates on each in turn until that fails."""
import ctypes
import json
import os
import sys
import uuid

cu = ctypes.CDLL("libcuda.so.1")
n, context, address = ctypes.c_int(0), ctypes.c_void_p(), ctypes.c_uint64()
assert cu.cuInit(0) == 0 and cu.cuDeviceGetCount(ctypes.byref(n)) == 0
leased = [
    g["uuid"] for s in json.load(open(os.environ["RGPU_LEASE"]))["servers"] for g in s["gpus"]
]
seen = []
for d in range(n.value):
    u = (ctypes.c_ubyte * 16)()
    assert cu.cuDeviceGetUuid_v2(u, d) == 0
    seen.append(leased.index("GPU-" + str(uuid.UUID(bytes=bytes(u)))))
print(os.environ.get("SLURM_PROCID", "-") + ":" + ",".join(map(str, seen)), flush=True)
contexts = []
for d in range(n.value if len(sys.argv) > 1 else 0):
    assert cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), d) == 0
    contexts.append(ctypes.c_void_p(context.value))
if contexts:
    open(sys.argv[1], "w").close()
while contexts:
    for context in contexts:
        assert cu.cuCtxSetCurrent(context) == 0
        if cu.cuMemAlloc_v2(ctypes.byref(address), 1 << 20) or cu.cuMemFree_v2(address):
            sys.exit("a call has failed")
