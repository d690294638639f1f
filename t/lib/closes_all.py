# SPDX-License-Identifier: Apache-2.0
"""A program that copies to a GPU, closes all its descriptors and opens files of its own:
closes_all.py SECONDS

What opens connections behind its back may not touch these: prints "ok" if all still stand so many
seconds later.
"""
import ctypes
import os
import sys
import tempfile
import time

cuda = ctypes.CDLL("libcuda.so.1")
context, address, size = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_size_t(4 << 20)
for r in (
    cuda.cuInit(0),
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
    cuda.cuCtxSetCurrent(context),
    cuda.cuMemAlloc_v2(ctypes.byref(address), size),
    cuda.cuMemcpyHtoD_v2(address, bytes(4 << 20), size),
):
    assert r == 0, r
time.sleep(0.3)  # not for anything to be over: connections are being opened now
os.closerange(3, 200)
files = [os.open(tempfile.gettempdir(), os.O_TMPFILE | os.O_RDWR, 0o600) for _ in range(40)]
time.sleep(float(sys.argv[1]))
wrong = []
for fd in files:
    try:
        os.write(fd, b"mine")
        if os.pread(fd, 100, 0) != b"mine":
            wrong.append(f"{fd}: {os.pread(fd, 100, 0)}")
    except OSError as e:
        wrong.append(f"{fd}: {e}")
print("; ".join(wrong) or "ok")
sys.stdout.flush()
os._exit(0)
