# SPDX-License-Identifier: Apache-2.0
"""A worker under its tenant's control that takes nothing of what it is given, or leaves what it has
to another: for t/t3518-leftovers.t.

TENANT (a file in $RGPU_SOFTGPU_HOST) says which: "lanes": it listens on its control socket, and
never accepts. "leave": it ends, and a process of its own keeps all its descriptors. "ours": it is
rgpu-worker, $1. Writes its number to LEASE.number there.
"""
import ctypes
import os
import sys
import time

host, lease = os.environ["RGPU_SOFTGPU_HOST"], os.environ["RGPU_WORKER_LEASE"]
with open(host + "/TENANT") as told:
    what = told.read().strip()
if what == "ours":
    os.execv(sys.argv[1], sys.argv[1:2])
if what == "lanes":
    ctypes.CDLL(None).listen(4, 1 << 16)  # serverd/worker_start.h: kControlDescriptor
if what == "leave":
    if os.fork():
        os._exit(0)
    os.setsid()
with open(f"{host}/{lease}.{os.getpid()}", "w") as file:
    file.write(str(int(os.environ["RGPU_WORKER_NUMBER"], 16)))
os.rename(file.name, f"{host}/{lease}.number")
while True:
    time.sleep(3600)
