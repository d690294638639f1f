# SPDX-License-Identifier: Apache-2.0
"""Dr.Jit: arrays, gradients and a loop, whose kernels it writes as PTX."""
import drjit as dr
import drjit.cuda as cuda
import numpy as np

x = dr.arange(cuda.Float, 1000)
wanted = np.sin(np.arange(1000, dtype=np.float32)) * 2 + 1
print('arrays', np.allclose((dr.sin(x) * 2 + 1).numpy(), wanted, atol=1e-4), dr.sum(x))
a = cuda.ad.Float(1, 2, 3)
dr.enable_grad(a)
dr.backward(dr.sum(a * a))
print('gradients', a.grad)


def more(i, total):
    return i + 1, total + cuda.Float(i)


print('loop', dr.while_loop((cuda.UInt32(0), cuda.Float(0)), lambda i, _: i < 100, more)[1])
