# SPDX-License-Identifier: Apache-2.0
"""All-reduces so many floats on two GPUs, where the values are made, too: nccl-bytes.py COUNT

Looks at a few of them, and prints "right" where they are.
"""
import ctypes
import struct
import sys

from nccl_calls import FLOAT, SUM, Z, all_of, check, cuda, group, nccl

count = int(sys.argv[1])
gpus = all_of()
buffers = []
for gpu in gpus:
    gpu.use()
    address = ctypes.c_uint64()
    check(cuda.cuMemAlloc_v2(ctypes.byref(address), Z(count * 4)))
    # 1.0 and 2.0
    check(cuda.cuMemsetD32_v2(address, 0x3F800000 + gpu.device * 0x00800000, Z(count)))
    # The communicator's streams do not wait for the default stream.
    check(cuda.cuCtxSynchronize())
    buffers.append(address)
with group():
    for gpu, b in zip(gpus, buffers):
        check(nccl.ncclAllReduce(b, b, Z(count), FLOAT, SUM, gpu.comm, gpu.stream))
seen = set()
for gpu, b in zip(gpus, buffers):
    gpu.use()
    check(cuda.cuStreamSynchronize(gpu.stream))
    for place in (0, count // 2, count - 1):
        raw = ctypes.create_string_buffer(4)
        check(cuda.cuMemcpyDtoH_v2(raw, ctypes.c_uint64(b.value + 4 * place), Z(4)))
        seen.add(struct.unpack('<f', raw.raw)[0])
for gpu in gpus:
    check(nccl.ncclCommDestroy(gpu.comm))
print('right' if seen == {3.0} else seen)
