# SPDX-License-Identifier: Apache-2.0
"""A worker under its tenant's control that keeps every lock it can get and spoils all it may write.

Started in rgpu-worker's place with rgpu-worker's descriptors and environment; becomes the lease's
user first. It goes for every descriptor (but not the boards of the GPUs, which are for the tests of
turns) and for every file below the directories named as arguments that it may open. Then it makes
the file named by $HOSTILE_READY and stays.
"""
import fcntl
import mmap
import os
import signal
import stat
import struct
import sys

F_OFD_SETLK = 37
identity = os.environ.get("RGPU_WORKER_IDENTITY")
if identity:
    uid, gid, groups = identity.split(":")
    os.setgroups([int(g) for g in groups.split(",") if g])
    os.setresgid(int(gid), int(gid), int(gid))
    os.setresuid(int(uid), int(uid), int(uid))

kept = []


def lock(fd):
    whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    for take in (
        lambda: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB),
        lambda: fcntl.fcntl(fd, F_OFD_SETLK, whole),
        lambda: fcntl.fcntl(fd, fcntl.F_SETLK, whole),
    ):
        try:
            take()
        except OSError:
            pass


# A pthread mutex, locked by nobody who lives: whoever takes it for one waits for ever.
GARBAGE = bytes(range(1, 256)) * 17


def spoil(fd):
    try:
        size = os.fstat(fd).st_size
        if not stat.S_ISREG(os.fstat(fd).st_mode) or not size:
            return
        memory = mmap.mmap(fd, size)
    except (OSError, ValueError):
        return
    memory[:] = (GARBAGE * (size // len(GARBAGE) + 1))[:size]
    kept.append(memory)


grown = []


def grow(fd):
    """What it gets beyond the size that it was given, and what of that lies on a disk."""
    state, name = os.fstat(fd), os.readlink(f"/proc/self/fd/{fd}")
    if not stat.S_ISREG(state.st_mode):
        return
    for attempt in (
        lambda: os.ftruncate(fd, state.st_size + (1 << 20)),
        lambda: os.posix_fallocate(fd, 0, state.st_size + (1 << 20)),
        lambda: os.pwrite(fd, b"more", state.st_size),
        lambda: os.ftruncate(fd, 0),
    ):
        try:
            attempt()
        except OSError:
            pass
        if os.fstat(fd).st_size != state.st_size:
            grown.append(name)
    if not name.startswith(("/memfd:", "/dev/shm/")):
        grown.append("on a disk: " + name)


boards = {int(fd) for fd in os.environ.get("RGPU_WORKER_BOARDS", "").split(",") if fd}
found = 0
for fd in sorted(int(name) for name in os.listdir("/proc/self/fd")):
    if fd < 3 or fd in boards:
        continue
    lock(fd)
    grow(fd)
    spoil(fd)
for top in sys.argv[1:]:
    for folder, below, files in os.walk(top):
        below[:] = [
            name for name in below if name not in ("cache", "images")
        ]  # of each account: his own
        for name in files:
            try:
                fd = os.open(os.path.join(folder, name), os.O_RDWR | os.O_NONBLOCK)
            except OSError:
                continue
            found += 1
            print("opened", os.path.join(folder, name), file=sys.stderr)
            lock(fd)
            spoil(fd)
            kept.append(fd)
with open(os.environ["HOSTILE_READY"] + ".grown", "w") as file:
    file.write("\n".join(grown))
with open(os.environ["HOSTILE_READY"] + ".new", "w") as ready:
    ready.write(f"{found}\n")
os.rename(os.environ["HOSTILE_READY"] + ".new", os.environ["HOSTILE_READY"])
while True:
    signal.pause()
