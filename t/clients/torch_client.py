# SPDX-License-Identifier: Apache-2.0
"""PyTorch: what its wheels let a software GPU do (copies, cuBLAS, cuDNN, torch.compile), and what
programs ask about their GPUs."""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def same(name, got, wanted):
    got = got.cpu()
    print(name, torch.allclose(got, wanted, rtol=1e-4, atol=1e-4))


count = torch.cuda.device_count()
print('devices', count, torch.cuda.get_device_name(0))
free, total = torch.cuda.mem_get_info()
print('memory', 0 < free <= total, total >> 30)
held = torch.zeros(64 << 20, dtype=torch.uint8).cuda()
print('taken', free - torch.cuda.mem_get_info()[0] >= 64 << 20, torch.cuda.memory_allocated() >> 20)
del held
torch.cuda.empty_cache()

a, b = torch.randn(65, 33), torch.randn(33, 47)
same('matmul', a.cuda() @ b.cuda(), a @ b)
linear = nn.Linear(33, 12)
same('linear', nn.functional.linear(a.cuda(), linear.weight.cuda(), linear.bias.cuda()), linear(a))
x, w = torch.randn(4, 3, 16, 16), torch.randn(8, 3, 3, 3)
same(
    'conv',
    nn.functional.conv2d(x.cuda(), w.cuda(), padding=1),
    nn.functional.conv2d(x, w, padding=1),
)
for i in range(count):
    same(f'device {i}', a.to(f'cuda:{i}') @ b.to(f'cuda:{i}'), a @ b)
if count > 1:
    same('between', a.to('cuda:0').to('cuda:1'), a)

# --- a loader with workers and pinned memory

loader = DataLoader(
    TensorDataset(torch.arange(640.0).view(64, 10)), 8, num_workers=2, pin_memory=True
)
weights, sums = torch.randn(10, 5), []
on_gpu = weights.cuda()
for (batch,) in loader:
    assert batch.is_pinned()
    sums.append(batch.cuda(non_blocking=True) @ on_gpu)
same('loader', torch.cat([s.cpu() for s in sums]), torch.arange(640.0).view(64, 10) @ weights)

# --- a graph of products

left, right = torch.randn(32, 32), torch.randn(32, 32)
first, second = left.cuda(), right.cuda()
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    out = first @ second
side.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    out = (first @ second) @ second
graph.replay()
torch.cuda.synchronize()
same('graph', out, left @ right @ right)
first.copy_(right)
graph.replay()
same('replayed', out, right @ right @ right)

# --- events, and what people paste into bug reports

start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
start.record()
first @ second
end.record()
end.synchronize()
print('events', start.elapsed_time(end) > 0)
from torch.utils import collect_env

text = collect_env.get_pretty_env_info()
print(text, file=sys.stderr)
print('collect_env', 'Is CUDA available: True' in text, text.count('rgpu software GPU'))
try:
    torch.ones(4).cuda() + 1
except Exception as e:
    print('own kernels', 'no kernel image' in str(e))
