# SPDX-License-Identifier: Apache-2.0
"""JAX: jit and grad, a small transformer that trains on the GPU as on the CPU, and work over two
GPUs.
"""
import functools

import jax
import jax.numpy as jnp
import numpy as np

# Else products are of TF32 numbers, which have three digits.
jax.config.update('jax_default_matmul_precision', 'highest')
gpus = jax.devices('cuda')
cpu = jax.devices('cpu')[0]
print('devices', [d.platform for d in gpus])


def close(got, wanted, tolerance=1e-4):
    return np.allclose(np.asarray(got), np.asarray(wanted), rtol=tolerance, atol=tolerance)


def on_both(function, *arguments):
    results = []
    for device in (gpus[0], cpu):
        with jax.default_device(device):
            results.append(jax.device_get(function(*jax.device_put(arguments, device))))
    return results


rng = np.random.default_rng(3)
x = rng.normal(size=(64, 48)).astype(np.float32)
f = jax.jit(lambda v: jnp.tanh(v @ v.T).sum(axis=0) + jnp.sort(v[:, 0]))
got, wanted = on_both(f, x)
print('jit', close(got, wanted))
got, wanted = on_both(jax.grad(lambda v: (jax.nn.softmax(v) ** 2).sum()), x)
print('grad', close(got, wanted))

# --- one block of attention and one of two layers; it learns to tell where in a row the mark is

WIDTH, LENGTH, WORDS, HEADS = 32, 12, 10, 4


def parameters():
    def weights(*shape):
        return (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)

    names = {
        'embed': (WORDS, WIDTH),
        'place': (LENGTH, WIDTH),
        'qkv': (WIDTH, 3 * WIDTH),
        'out': (WIDTH, WIDTH),
        'up': (WIDTH, 4 * WIDTH),
        'down': (4 * WIDTH, WIDTH),
        'head': (WIDTH, LENGTH),
    }
    return {name: weights(*shape) for name, shape in names.items()}


def norm(h):
    return (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-5)


def logits(p, words):
    h = p['embed'][words] + p['place']
    q, k, v = jnp.split(norm(h) @ p['qkv'], 3, axis=-1)
    split = [t.reshape(*t.shape[:2], HEADS, -1).swapaxes(1, 2) for t in (q, k, v)]
    scores = split[0] @ split[1].swapaxes(-1, -2) / np.sqrt(WIDTH / HEADS)
    mixed = (jax.nn.softmax(scores) @ split[2]).swapaxes(1, 2).reshape(h.shape)
    h = h + mixed @ p['out']
    h = h + jax.nn.gelu(norm(h) @ p['up']) @ p['down']
    return norm(h).mean(axis=1) @ p['head']


def loss(p, words, marks):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits(p, words)), marks[:, None], 1).mean()


@jax.jit
def step(p, words, marks):
    value, slopes = jax.value_and_grad(loss)(p, words, marks)
    return jax.tree.map(lambda w, s: w - 0.3 * s, p, slopes), value


words = rng.integers(1, WORDS, size=(64, LENGTH))
marks = rng.integers(0, LENGTH, size=64)
words[np.arange(64), marks] = 0


def train(p, words, marks):
    losses = []
    for _ in range(30):
        p, value = step(p, words, marks)
        losses.append(value)
    return jnp.stack(losses)


got, wanted = on_both(train, parameters(), words, marks)
print('transformer', bool(got[-1] < got[0] / 2), close(got, wanted, 1e-2))

# --- two GPUs

if len(gpus) > 1:
    halves = x.reshape(2, 32, 48)
    print('pmap', close(jax.pmap(lambda v: v @ v.T)(halves), halves @ halves.swapaxes(1, 2)))

    # With a communicator of NCCL's, from JAX's packages.
    sums = jax.pmap(lambda v: jax.lax.psum(v, 'gpus'), axis_name='gpus')(halves)
    print('psum', close(sums, np.broadcast_to(halves.sum(axis=0), halves.shape)))

    mesh = jax.make_mesh((2,), ('gpu',), devices=gpus[:2])
    rows = jax.sharding.PartitionSpec('gpu')

    @jax.jit
    @functools.partial(jax.shard_map, mesh=mesh, in_specs=rows, out_specs=rows)
    def own_sums(v):
        return jnp.cumsum(v, axis=0) + jax.lax.axis_index('gpu')

    apart = jax.device_put(x, jax.sharding.NamedSharding(mesh, rows))
    wanted = np.cumsum(halves, axis=1) + np.arange(2).reshape(2, 1, 1)
    got = own_sums(apart)
    print('shard_map', len(got.devices()), close(got, wanted.reshape(64, 48)))
