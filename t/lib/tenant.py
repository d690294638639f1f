# SPDX-License-Identifier: Apache-2.0
"""What a tenant does who is in full control of his worker: stands in for rgpu-worker in hostile
tests (t35xx).

Writes what it finds as JSON to $RGPU_SOFTGPU_HOST/LEASE.json. TENANT (a file in that folder) says
what it does next: "hold": ignores SIGTERM, leaves behind a process of its own session that holds
all descriptors, too, and closes them itself. Then it stays. What it reaches for is the process
whose pid is in the file "victim" there, as the host counts.
"""
import ctypes
import json
import os
import signal
import time

host, lease = os.environ["RGPU_SOFTGPU_HOST"], os.environ["RGPU_WORKER_LEASE"]
libc = ctypes.CDLL(None, use_errno=True)
KEY = 0x52475055


def text(name):
    try:
        with open(os.path.join(host, name)) as file:
            return file.read().strip()
    except OSError:
        return ""


def answer(call):
    try:
        return call() or "done"
    except OSError as failure:
        return type(failure).__name__


def open_memory(pid):
    with open(f"/proc/{pid}/mem", "r+b", buffering=0):
        pass


def attach():
    got = libc.shmget(KEY, 4096, 0)
    if got < 0:
        raise OSError(ctypes.get_errno(), "shmget")


status = dict(
    line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line
)
found = {
    "uid": os.getuid(),
    "gid": os.getgid(),
    "groups": os.getgroups(),
    "capabilities": status["CapEff"],
    "bounded": status["NoNewPrivs"],
    "pid": os.getpid(),
    "sees": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
    "devices": sorted(os.listdir("/dev")),
    "own": answer(lambda: ",".join(os.listdir(host + "/../own"))),
    "init": answer(lambda: os.kill(1, signal.SIGKILL)),
    "spaces": {n: os.readlink("/proc/self/ns/" + n) for n in ("pid", "ipc", "mnt")},
}
victim = text("victim")
if victim:
    found["memory"] = answer(lambda: open_memory(victim))
    found["signal"] = answer(lambda: os.kill(int(victim), 0))
    found["shared"] = answer(attach)
else:
    libc.shmget(KEY, 4096, 0o1666)  # IPC_CREAT
if text("TENANT") == "own":
    with open(host + "/../own/secret", "w") as file:
        file.write("the tenant's before")
if text("TENANT") == "hold":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
    else:
        os.closerange(3, 256)
    found["left"] = os.getpid()
with open(f"{host}/{lease}.{os.getpid()}", "w") as file:
    json.dump(found, file)
os.rename(file.name, f"{host}/{lease}.json")
while True:
    time.sleep(3600)
