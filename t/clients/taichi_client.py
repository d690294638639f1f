# SPDX-License-Identifier: Apache-2.0
"""Taichi: a field, a fractal and a sum of it."""
import numpy as np
import taichi as ti

ti.init(arch=ti.cuda, device_memory_GB=1, offline_cache=False, log_level=ti.ERROR)
print('on', ti.cfg.arch)
n = 64
field = ti.field(float, shape=(2 * n, n))


@ti.kernel
def paint(t: float):
    for i, j in field:
        c = ti.Vector([-0.8, ti.cos(t) * 0.2])
        z = ti.Vector([i / n - 1, j / n - 0.5]) * 2
        k = 0
        while z.norm() < 20 and k < 50:
            z = ti.Vector([z[0] ** 2 - z[1] ** 2, z[1] * z[0] * 2]) + c
            k += 1
        field[i, j] = 1 - k * 0.02


@ti.kernel
def total() -> float:
    s = 0.0
    for i, j in field:
        s += field[i, j]
    return s


paint(0.3)
print('sum', np.isclose(total(), field.to_numpy().sum()), '%.1f' % total())
