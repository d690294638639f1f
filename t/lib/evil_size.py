# SPDX-License-Identifier: Apache-2.0
"""evil_size.py WORKER [ARGS...]: a worker in its tenant's hands that gives its lease more memory.

Started as rgpu-worker is. It tries every way to write the page in which the scheduler says what
the lease may have (share/pages.h), says on stderr how many of them got somewhere, and then is the
worker.
"""
import array
import ctypes
import fcntl
import mmap
import os
import socket
import struct
import sys

PAGE, ADD_SEALS = 4096, 1033
LARGE = struct.pack('<Q', 2**40) * (PAGE // 8)
libc = ctypes.CDLL(None, use_errno=True)
got_through = []
pages = []
for number in os.environ.get('RGPU_WORKER_BOARDS', '').split(','):
    if not number:
        continue
    with socket.socket(fileno=os.dup(int(number))) as place:
        # They stay there for the worker.
        flags = socket.MSG_DONTWAIT | socket.MSG_PEEK
        _, control, _, _ = place.recvmsg(64, 4096, flags)
    for _, _, data in control:
        pages.append(list(array.array('i', data[: len(data) // 4 * 4]))[1])


def attempt(name, action):
    try:
        action()
        got_through.append(name)
    except (OSError, ValueError, TypeError, PermissionError):
        pass


def protect(page):
    memory = mmap.mmap(page, PAGE, mmap.MAP_SHARED, mmap.PROT_READ)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    address = libc.mmap(None, PAGE, 1, 1, page, 0)
    memory.close()
    if libc.mprotect(ctypes.c_void_p(address), PAGE, 3) != 0:
        raise OSError(ctypes.get_errno(), 'mprotect')


def punch(page):  # a hole reads as 0: nothing is said, and the cap of the start would hold
    if libc.fallocate(page, 3, ctypes.c_long(0), ctypes.c_long(PAGE)) != 0:
        raise OSError(ctypes.get_errno(), 'fallocate')


for page in pages:
    before = os.pread(page, PAGE, 0)
    again = '/proc/self/fd/%d' % page
    attempt('mmap', lambda: mmap.mmap(page, PAGE))
    attempt('mprotect', lambda: protect(page))
    attempt('pwrite', lambda: os.pwrite(page, LARGE, 0))
    attempt('open', lambda: os.pwrite(os.open(again, os.O_RDWR), LARGE, 0))
    attempt(
        'chmod', lambda: (os.chmod(again, 0o666), os.pwrite(os.open(again, os.O_RDWR), LARGE, 0))
    )
    attempt('truncate', lambda: os.ftruncate(page, 0))
    attempt('grow', lambda: os.ftruncate(page, 2 * PAGE))
    attempt('hole', lambda: punch(page))
    attempt('seal', lambda: fcntl.fcntl(page, ADD_SEALS, 0x8))
    if os.pread(page, PAGE, 0) != before:
        got_through.append('content')


print(
    'evil_size: %d pages, got through: %s' % (len(pages), ' '.join(got_through) or 'nothing'),
    file=sys.stderr,
    flush=True,
)
os.execv(sys.argv[1], sys.argv[1:])
