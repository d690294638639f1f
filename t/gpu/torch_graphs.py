# SPDX-License-Identifier: Apache-2.0
"""Training steps replayed as a CUDA graph (torch.cuda.graphs)."""
from torch_common import device, show, torch
from torch import nn

net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(32, 64, device=device), torch.arange(32, device=device) % 10


def step():
    optimiser.zero_grad(set_to_none=False)
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimiser.step()
    return loss


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    captured = step()
losses = []
for _ in range(20):
    graph.replay()
    losses.append(captured.item())
assert losses[-1] < losses[0]
show(losses)
