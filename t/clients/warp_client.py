# SPDX-License-Identifier: Apache-2.0
"""NVIDIA Warp: a kernel, and its gradient."""
import numpy as np
import warp as wp

wp.config.quiet = True
wp.init()


@wp.kernel
def wave(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
    i = wp.tid()
    y[i] = a * x[i] + wp.sin(x[i])


numbers = np.arange(1000, dtype=np.float32)
x = wp.array(numbers, device='cuda:0', requires_grad=True)
y = wp.zeros(1000, dtype=float, device='cuda:0', requires_grad=True)
tape = wp.Tape()
with tape:
    wp.launch(wave, dim=1000, inputs=[x, y, 2.0], device='cuda:0')
print('kernel', np.allclose(y.numpy(), 2 * numbers + np.sin(numbers), atol=1e-3))
tape.backward(grads={y: wp.ones(1000, dtype=float, device='cuda:0')})
print('gradient', np.allclose(x.grad.numpy(), 2 + np.cos(numbers), atol=1e-3))
