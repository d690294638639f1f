# SPDX-License-Identifier: Apache-2.0
"""lease_parts.py [LEASE_FILE]: "gpu1:2 gpu2:1", the servers of a lease file, in its order.

The number is how many GPUs each has there. Without a file it is that of RGPU_LEASE."""
import json
import os
import sys

servers = json.load(open(sys.argv[1] if len(sys.argv) > 1 else os.environ["RGPU_LEASE"]))["servers"]
assert len({g["uuid"] for s in servers for g in s["gpus"]}) == sum(len(s["gpus"]) for s in servers)
print(*[f'{s["name"]}:{len(s["gpus"])}' for s in servers])
