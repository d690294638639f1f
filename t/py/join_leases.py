# SPDX-License-Identifier: Apache-2.0
"""join_leases.py FILE SERVER...: makes one lease file FILE of FILE.SERVER..., the leases of one
server each."""
import json
import os
import sys

file, servers = sys.argv[1], sys.argv[2:]
lease = {"version": 1, "job": "", "servers": []}
for server in servers:
    lease["servers"] += json.load(open(f"{file}.{server}"))["servers"]
with os.fdopen(os.open(file, os.O_CREAT | os.O_WRONLY, 0o400), "w") as f:
    json.dump(lease, f)
