# SPDX-License-Identifier: Apache-2.0
"""NVML lists just the GPUs of the lease; prints MiB in all and used of each."""
import json
import os
from pynvml import (
    nvmlDeviceGetCount,
    nvmlDeviceGetHandleByIndex,
    nvmlDeviceGetMemoryInfo,
    nvmlDeviceGetUUID,
    nvmlInit,
)

nvmlInit()
seen = [
    (
        nvmlDeviceGetUUID(d),
        nvmlDeviceGetMemoryInfo(d).total >> 20,
        nvmlDeviceGetMemoryInfo(d).used >> 20,
    )
    for d in map(nvmlDeviceGetHandleByIndex, range(nvmlDeviceGetCount()))
]
leased = [
    g["uuid"] for s in json.load(open(os.environ["RGPU_LEASE"]))["servers"] for g in s["gpus"]
]
assert [s[0] for s in seen] == leased, (seen, leased)
for uuid, total, used in seen:
    print(total, used)
