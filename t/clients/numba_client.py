# SPDX-License-Identifier: Apache-2.0
"""numba-cuda: kernels compiled here, copies, streams, events, shared memory, atomics, a
reduction."""
import hashlib
import numpy as np
from numba import cuda, float32


@cuda.jit
def saxpy(a, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@cuda.jit
def block_sums(x, sums):
    part = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    part[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    step = 64
    while step:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        sums[cuda.blockIdx.x] = part[0]


@cuda.jit
def histogram(x, bins):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(bins, x[i] % bins.size, 1)


@cuda.reduce
def total(a, b):
    return a + b


rng = np.random.default_rng(1)
n = 10000
x, y = (rng.random(n, dtype=np.float32) for _ in range(2))
stream = cuda.stream()
with stream.auto_synchronize():
    dx, dy = cuda.to_device(x, stream), cuda.to_device(y, stream)
    out = cuda.device_array(n, np.float32, stream=stream)
    saxpy[(n + 127) // 128, 128, stream](np.float32(2.5), dx, dy, out)
    host = out.copy_to_host(stream=stream)
assert np.allclose(host, 2.5 * x + y)
sums = cuda.device_array((n + 127) // 128, np.float32)
block_sums[(n + 127) // 128, 128](dx, sums)
sums = sums.copy_to_host()
assert np.isclose(sums.sum(), x.sum(), rtol=1e-4)
bins = cuda.to_device(np.zeros(10, np.int32))
values = rng.integers(0, 1000, n, dtype=np.int32)
histogram[(n + 127) // 128, 128](values, bins)
counted = bins.copy_to_host()
assert (counted == np.bincount(values % 10, minlength=10)).all()
start, end = cuda.event(), cuda.event()
start.record(), end.record(), end.synchronize()
assert start.elapsed_time(end) >= 0
assert total(np.arange(1000, dtype=np.float64)) == 499500
pinned = cuda.pinned_array(1000, np.float32)
pinned[:] = 3
assert (cuda.to_device(pinned).copy_to_host() == 3).all()
print(hashlib.sha256(host.tobytes() + sums.tobytes() + counted.tobytes()).hexdigest())
