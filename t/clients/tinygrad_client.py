# SPDX-License-Identifier: Apache-2.0
"""tinygrad with its JIT: training steps, replayed as CUDA graphs (JIT=1) or one by one (JIT=2)."""
import os

os.environ.setdefault('DEV', 'CUDA')
os.environ.setdefault('TRAINING', '1')
os.environ.setdefault('PARALLEL', '0')
import numpy as np
from tinygrad import Tensor, TinyJit, nn
from tinygrad.nn.state import get_parameters

Tensor.manual_seed(3)


class Net:
    def __init__(self):
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 4)

    def __call__(self, x):
        return self.second(self.first(x).relu())


rng = np.random.default_rng(5)
data = rng.standard_normal((64, 16)).astype(np.float32)
labels = (data[:, 0] > 0).astype(np.int32) * 2 + (data[:, 1] > 0)
net = Net()
optimiser = nn.optim.Adam(get_parameters(net), lr=0.02)


@TinyJit
def step(x, y):
    optimiser.zero_grad()
    loss = net(x).sparse_categorical_crossentropy(y)
    loss.backward()
    optimiser.step()
    return loss.realize()


x, y = Tensor(data), Tensor(labels.astype(np.int32))
losses = [step(x, y).item() for _ in range(12)]
assert losses[-1] < losses[0] / 2, losses
print(' '.join(f'{loss:.9g}' for loss in losses))
