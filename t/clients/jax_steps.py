# SPDX-License-Identifier: Apache-2.0
"""jax_steps.py N: trains a small network for N steps, each looked at."""
import sys

import jax
import jax.numpy as jnp

KEY = jax.random.PRNGKey(0)


def loss(weights, x, y):
    hidden = jnp.tanh(x @ weights[0] + weights[1])
    return jnp.mean((hidden @ weights[2] + weights[3] - y) ** 2)


@jax.jit
def step(weights, x, y):
    value, gradients = jax.value_and_grad(loss)(weights, x, y)
    return [w - 0.1 * g for w, g in zip(weights, gradients)], value


weights = [
    jax.random.normal(KEY, (16, 32)),
    jnp.zeros(32),
    jax.random.normal(KEY, (32, 1)),
    jnp.zeros(1),
]
x = jax.random.normal(KEY, (64, 16))
y = jnp.sum(x, 1, keepdims=True)
for _ in range(int(sys.argv[1])):
    weights, value = step(weights, x, y)
    last = float(value)
print('trained', last < 1.6, jax.devices()[0].platform)
