# SPDX-License-Identifier: Apache-2.0
"""What processes do with a driver in them: fork, exec, dlclose, closed descriptors, exits. One case
a run: process_cases.py CASE."""
import ctypes as c
import os
import signal
import socket
import subprocess
import sys
import threading

NOT_INITIALIZED = 3


def driver():
    return c.CDLL('libcuda.so.1')


def start(cuda=None):
    """The driver with a context; returns it and 1 MiB of device memory."""
    cuda = cuda or driver()
    ctx, p = c.c_void_p(), c.c_uint64()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(c.byref(ctx), 0) == 0 and cuda.cuCtxSetCurrent(ctx) == 0
    assert cuda.cuMemAlloc_v2(c.byref(p), 1 << 20) == 0
    return cuda, p


def works(cuda, p, value=7):
    out = (c.c_uint32 * 4)()
    assert cuda.cuMemsetD32_v2(p, value, 4) == 0
    assert cuda.cuMemcpyDtoH_v2(out, p, 16) == 0
    assert list(out) == [value] * 4, list(out)


def child(f):
    """Runs f in a forked child, which then exits as programs do; returns the exit status."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        f()
        sys.exit(0)
    return os.waitpid(pid, 0)[1]


def case_fork():
    cuda, p = start()
    works(cuda, p)

    def in_child():
        n = c.c_int()
        got = [
            cuda.cuInit(0),
            cuda.cuDeviceGetCount(c.byref(n)),
            cuda.cuMemAlloc_v2(c.byref(c.c_uint64()), 4096),
            cuda.cuMemcpyDtoH_v2((c.c_uint32 * 4)(), p, 16),
            cuda.cuCtxSynchronize(),
            cuda.cuMemFree_v2(p),
        ]
        assert got == [NOT_INITIALIZED] * 6, got

    assert child(in_child) == 0
    works(cuda, p, 8)


def case_fork_before():
    """A parent that only asked for versions and entry points has not begun: parent and child both
    may."""
    cuda = driver()
    v, f, status = c.c_int(), c.c_void_p(), c.c_int()
    assert cuda.cuDriverGetVersion(c.byref(v)) == 0 and v.value >= 12000
    assert (
        cuda.cuGetProcAddress_v2(b'cuInit', c.byref(f), 12000, c.c_uint64(0), c.byref(status)) == 0
    )
    assert child(lambda: works(*start(cuda))) == 0
    works(*start(cuda))
    assert child(lambda: works(*start(cuda))) != 0, 'after cuInit it is too late'


def case_exec():
    cuda, p = start()
    again = [sys.executable, sys.argv[0], 'use']
    assert subprocess.run(again).returncode == 0, 'a program started while this one uses CUDA'
    assert subprocess.run(again, close_fds=False).returncode == 0
    pid = os.fork()
    if pid == 0:
        os.execv(sys.executable, again)
    assert os.waitpid(pid, 0)[1] == 0
    works(cuda, p)
    os.execv(sys.executable, again)


def case_use():
    works(*start())


def case_dlclose():
    libc = c.CDLL(None)
    libc.dlclose.argtypes = [c.c_void_p]
    for _ in range(3):
        cuda = driver()
        works(*start(cuda))
        libc.dlclose(cuda._handle)


def case_closed():
    """All descriptors are closed and their numbers used for something else: nothing of ours goes
    there."""
    cuda, p = start()
    works(cuda, p)
    fds = socket.socketpair()
    keep, give = os.dup2(fds[0].fileno(), 300), os.dup2(fds[1].fileno(), 301)
    os.closerange(3, 300)
    taken = [os.dup(give) for _ in range(60)]
    os.set_blocking(keep, False)
    os.write(keep, b'not for the driver')
    for _ in range(3):
        assert cuda.cuCtxSynchronize() != 0
        cuda.cuMemFree_v2(p)
        assert cuda.cuMemcpyDtoH_v2((c.c_uint32 * 4)(), p, 16) != 0
    assert os.read(give, 100) == b'not for the driver', 'what is the program\'s was read'
    try:
        got = os.read(keep, 100)
    except BlockingIOError:
        got = b''
    assert got == b'', f'{len(got)} bytes of ours went into the program\'s socket'
    for fd in taken:
        os.fstat(fd)  # none of them was closed


def case_daemon():
    """The parent ends, the child stays (8 seconds, or as many as said): the connection ends with
    the parent."""
    cuda, p = start()
    works(cuda, p)
    if os.fork():
        os._exit(0)
    os.setsid()
    os.closerange(0, 3)
    signal.alarm(int(sys.argv[2]) if len(sys.argv) > 2 else 8)
    while True:
        signal.pause()


def exits(leave):
    def case():
        cuda, p = start()
        cuda.cuMemsetD32_v2(p, 1, 4)  # posted, and on its way
        leave()

    return case


case_exit = exits(lambda: sys.exit(0))
case_quick_exit = exits(lambda: os._exit(0))
case_killed = exits(lambda: os.kill(os.getpid(), signal.SIGKILL))
case_aborted = exits(os.abort)


def case_exit_in_thread():
    cuda, p = start()
    libc = c.CDLL(None)

    def more():
        while True:
            cuda.cuMemsetD32_v2(p, 1, 4)
            cuda.cuCtxSynchronize()

    for _ in range(4):
        threading.Thread(target=more, daemon=True).start()
    t = threading.Thread(target=libc.exit, args=(0,))
    t.start()
    t.join()


def case_subprocess():
    cuda, p = start()
    for _ in range(20):
        assert subprocess.run(['true']).returncode == 0
        works(cuda, p)


globals()['case_' + sys.argv[1]]()
