# SPDX-License-Identifier: Apache-2.0
"""A CUDA program with an OpenSSL of its own: copies there and back, before and after a fork."""
import ctypes
import hashlib
import os
import ssl
import sys

cuda = ctypes.CDLL("libcuda.so.1")


def check(r):
    if r:
        sys.exit("CUDA error %d" % r)


def roundtrip():
    data = os.urandom(3 << 20)
    address, back = ctypes.c_uint64(), ctypes.create_string_buffer(len(data))
    check(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(len(data))))
    check(cuda.cuMemcpyHtoD_v2(address, data, ctypes.c_size_t(len(data))))
    check(cuda.cuMemcpyDtoH_v2(back, address, ctypes.c_size_t(len(data))))
    return hashlib.sha256(back.raw[: len(data)]).digest() == hashlib.sha256(data).digest()


context = ssl.create_default_context()
before = hashlib.sha3_256(b"x").hexdigest()
check(cuda.cuInit(0))
handle = ctypes.c_void_p()
check(cuda.cuCtxCreate_v2(ctypes.byref(handle), 0, 0))
print("round trip", roundtrip())
mapped = {line.split()[-1] for line in open("/proc/self/maps") if "libcrypto" in line}
print(
    "copies of libcrypto",
    sum(1 for line in open("/proc/self/maps") if "libcrypto" in line and " r-xp " in line),
)
if os.fork() == 0:
    print("child", cuda.cuInit(0), flush=True)
    os._exit(0)
os.wait()
print("after the fork", roundtrip())
context.load_default_certs()
print(
    "its own OpenSSL works",
    hashlib.sha3_256(b"x").hexdigest() == before and ssl.create_default_context() is not None,
)
