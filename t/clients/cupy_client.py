# SPDX-License-Identifier: Apache-2.0
"""cupy, for what needs no cuBLAS: elementwise, reductions, sorting by hand-written kernels, raw
modules, pools, streams."""
import hashlib
import cupy as cp
import numpy as np

x = cp.arange(20000, dtype=cp.float32).reshape(100, 200)
y = cp.sin(x) * 2 + x**2 / 1000
host = cp.asnumpy(y)
assert np.allclose(
    host, np.sin(cp.asnumpy(x)) * 2 + cp.asnumpy(x) ** 2 / 1000, rtol=1e-4, atol=1e-4
)
sums = cp.asnumpy(y.sum(axis=0))
assert np.allclose(sums, host.sum(axis=0), rtol=1e-3)
assert float(y.max()) == host.max() and int(y.argmin()) == host.argmin()
picked = cp.asnumpy(x[::3, ::5] + cp.where(x[::3, ::5] % 2 == 0, 1, -1))
raw = cp.RawKernel(
    r'''
extern "C" __global__ void swap_halves(const float *a, float *b, int n)
{
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) b[(i + n / 2) % n] = a[i] + 1;
}''',
    'swap_halves',
)
swapped = cp.empty(20000, cp.float32)
raw((79,), (256,), (x.ravel(), swapped, np.int32(20000)))
assert (cp.asnumpy(swapped) == np.roll(cp.asnumpy(x).ravel() + 1, 10000)).all()
with cp.cuda.Stream(non_blocking=True) as stream:
    z = cp.ones(1000, cp.int64) * 3
    stream.synchronize()
assert int(z.sum()) == 3000
add = cp.ElementwiseKernel('float32 a, float32 b', 'float32 c', 'c = a + 2 * b', 'add')
c = cp.asnumpy(add(x, y))
norm = cp.ReductionKernel(
    'float32 a', 'float64 b', 'a * a', 'a + b', 'b = sqrt(a)', '0', 'length_of'
)
assert np.isclose(float(norm(x)), np.linalg.norm(cp.asnumpy(x).astype(np.float64).ravel()))
pool = cp.get_default_memory_pool()
assert pool.used_bytes() > 0
free, total = cp.cuda.Device().mem_info
assert 0 < free <= total
print(hashlib.sha256(host.tobytes() + sums.tobytes() + picked.tobytes() + c.tobytes()).hexdigest())
