# SPDX-License-Identifier: Apache-2.0
"""Trains two small networks with torch.compile on the GPU and the same ones on the CPU: prints both
losses of every step.

    python torch-train.py linear|convolution
"""
import importlib
import sys

importlib.import_module("softgpu_torch")  # lets torch.compile work on the software GPU

import torch  # noqa: E402
from torch import nn  # noqa: E402


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(20, 64), nn.Linear(64, 5)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 8, 3, padding=1), nn.Linear(8 * 16, 4)

    def forward(self, x):
        return self.second(nn.functional.max_pool2d(torch.relu(self.first(x)), 2).flatten(1))


torch.manual_seed(0)
if sys.argv[1] == "linear":
    kind, x = Linear, torch.randn(256, 20)
    y = (x @ torch.randn(20, 5)).argmax(1)
else:
    kind, x = Convolution, torch.randn(64, 1, 8, 8)
    y = (x.mean((1, 2, 3)) > 0).long() + 2 * (x[:, 0, :4].mean((1, 2)) > 0).long()
there, here = kind(), kind()
here.load_state_dict(there.state_dict())
there = there.cuda()
gpu_x, gpu_y = x.cuda(), y.cuda()
# Not even the first gradient may come from a kernel of PyTorch's own.
one = torch.ones(()).cuda()
optimiser, reference = torch.optim.SGD(there.parameters(), lr=0.1), torch.optim.SGD(
    here.parameters(), lr=0.1
)
compiled = torch.compile(lambda a, b: nn.functional.cross_entropy(there(a), b))
step = torch.compile(optimiser.step)
for i in range(20):
    loss = compiled(gpu_x, gpu_y)
    loss.backward(one)
    step()
    optimiser.zero_grad(set_to_none=True)
    wanted = nn.functional.cross_entropy(here(x), y)
    wanted.backward()
    reference.step()
    reference.zero_grad(set_to_none=True)
    print(i, loss.item(), wanted.item(), flush=True)
    if i == 0:
        first = wanted.item()
    if not abs(loss.item() - wanted.item()) < 1e-4:
        sys.exit("the losses differ")
print("right" if loss.item() < 0.9 * first else "it does not learn")
