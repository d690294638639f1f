# SPDX-License-Identifier: Apache-2.0
"""evil_board.py SECONDS: a worker that its tenant has taken over, at what it shares.

Started as rgpu-worker is, with its descriptors and environment. It makes files shorter and longer,
takes pages out of them, writes all kinds of values into every word, changes the flags of what it
shares, and rings all the time.
"""
import array
import fcntl
import mmap
import os
import random
import socket
import stat
import struct
import sys
import threading
import time

PAGE, SEALS = 4096, 1033  # F_ADD_SEALS
boards = [int(x) for x in os.environ['RGPU_WORKER_BOARDS'].split(',')]
files = [6, 7] + boards + [int(x) for x in [os.environ.get('RGPU_WORKER_METER')] if x]
end = time.time() + float(sys.argv[1])
random.seed(35)

for fd in boards:
    if not stat.S_ISSOCK(os.fstat(fd).st_mode):
        continue
    with socket.socket(fileno=os.dup(fd)) as place:
        _, control, _, _ = place.recvmsg(64, 4096, socket.MSG_DONTWAIT)
    for level, kind, data in control:
        files += list(array.array('i', data[: len(data) // 4 * 4]))


def attempt(action, *args):
    try:
        return action(*args)
    except (OSError, ValueError, BufferError):
        return None


def words(kind, size):
    if kind < 5:
        return struct.pack('<Q', [0, 2**64 - 1, 2**63 - 1, 2**63, 1][kind]) * (size // 8)
    if kind == 5:  # small numbers, as indices are
        return b''.join(
            struct.pack('<i', random.choice([-1, -(2**31), 2**31 - 1, 127, 128, 1 << 20, 7]))
            for _ in range(size // 4)
        )
    return random.randbytes(size)


maps = []
for fd in files:
    if stat.S_ISREG(os.fstat(fd).st_mode):
        size = min(os.fstat(fd).st_size, 1 << 22)
        if size and (memory := attempt(mmap.mmap, fd, size)):
            maps.append((fd, memory))
    else:
        attempt(fcntl.fcntl, fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_NONBLOCK)


def ring():
    bell = [fd for fd in files if 'eventfd' in attempt(os.readlink, f'/proc/self/fd/{fd}')]
    one = struct.pack('<Q', 1)
    while time.time() < end:
        for _ in range(200):
            for fd in bell or boards:
                attempt(os.write, fd, one)
        time.sleep(0.005)  # the host's processors are not what is attacked here


threading.Thread(target=ring, daemon=True).start()
kind = 0
while time.time() < end:
    for fd, memory in maps:
        # Never twice the same: of what makes no sense, less sense is made by a lock that looks
        # held, and then does not.
        if attempt(os.fstat, fd).st_size >= len(memory):
            memory[:] = words(kind % 7, len(memory) // 8 * 8) + bytes(len(memory) % 8)
    kind += 1
    time.sleep(0.02)
for fd in files:
    if stat.S_ISREG(os.fstat(fd).st_mode):
        attempt(fcntl.fcntl, fd, SEALS, 0xF)
        attempt(os.ftruncate, fd, 1 << 30)
        attempt(os.ftruncate, fd, 100)
        attempt(os.ftruncate, fd, 0)
print(f'rgpu-worker: {len(maps)} of {len(files)} descriptors were written to', file=sys.stderr)
while True:
    time.sleep(1)
