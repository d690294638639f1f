# SPDX-License-Identifier: Apache-2.0
"""task_gpus.py [MEBIBYTES [FOLDER TASKS]]: the task's number, and the places in the lease of the
GPUs it sees.

With a number: allocates as many MiB on each first. With a folder: waits there until TASKS have
come, and for the file "go"."""
import ctypes
import json
import os
import sys
import time
import uuid

cu = ctypes.CDLL("libcuda.so.1")
r = cu.cuInit(0)
n = ctypes.c_int(0)
if r == 0:
    assert cu.cuDeviceGetCount(ctypes.byref(n)) == 0
elif r != 100:
    sys.exit(f"cuInit {r}")
leased = [
    g["uuid"] for s in json.load(open(os.environ["RGPU_LEASE"]))["servers"] for g in s["gpus"]
]
seen = []
for d in range(n.value):
    u = (ctypes.c_ubyte * 16)()
    assert cu.cuDeviceGetUuid_v2(u, d) == 0
    seen.append(leased.index("GPU-" + str(uuid.UUID(bytes=bytes(u)))))
words = [os.environ.get("SLURM_PROCID", "-") + ":" + ",".join(map(str, seen))]
if len(sys.argv) > 1:
    for d in range(n.value):
        context, address = ctypes.c_void_p(), ctypes.c_uint64()
        assert (
            cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), d) == 0
            and cu.cuCtxSetCurrent(context) == 0
        )
        words.append(str(cu.cuMemAlloc_v2(ctypes.byref(address), int(sys.argv[1]) << 20)))
if len(sys.argv) > 3:
    folder, tasks = sys.argv[2], int(sys.argv[3])
    open(os.path.join(folder, words[0] + "." + str(os.getpid())), "w").close()
    end = time.time() + 60
    while len([f for f in os.listdir(folder) if ":" in f]) < tasks or not os.path.exists(
        folder + "/go"
    ):
        if time.time() > end:
            sys.exit("the others do not come")
        time.sleep(0.05)
print(*words, flush=True)
