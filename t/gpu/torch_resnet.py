# SPDX-License-Identifier: Apache-2.0
"""ResNet-18 (its basic blocks, written out: torchvision is not needed), trained for some steps;
needs cuDNN."""
from torch_common import device, show, torch
from torch import nn


class Basic(nn.Module):
    def __init__(self, ins, outs, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(ins, outs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outs),
            nn.ReLU(),
            nn.Conv2d(outs, outs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outs),
        )
        self.past = (
            nn.Identity()
            if stride == 1 and ins == outs
            else nn.Sequential(nn.Conv2d(ins, outs, 1, stride, bias=False), nn.BatchNorm2d(outs))
        )

    def forward(self, x):
        return torch.relu(self.body(x) + self.past(x))


layers = [
    nn.Conv2d(3, 64, 7, 2, 3, bias=False),
    nn.BatchNorm2d(64),
    nn.ReLU(),
    nn.MaxPool2d(3, 2, 1),
]
for ins, outs, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)):
    layers += [Basic(ins, outs, stride), Basic(outs, outs, 1)]
# A mean instead of adaptive pooling, whose gradient is not deterministic.
net = nn.Sequential(*layers).to(device)
head = nn.Linear(512, 10).to(device)
optimiser = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.02, momentum=0.9)
x, y = torch.randn(16, 3, 64, 64).to(device), (torch.arange(16) % 10).to(device)
losses = []
for _ in range(10):
    loss = nn.functional.cross_entropy(head(net(x).mean((2, 3))), y)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
assert losses[-1] < losses[0]
show(losses)
