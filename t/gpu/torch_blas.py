# SPDX-License-Identifier: Apache-2.0
"""cuBLAS and cuDNN through PyTorch: products in several precisions, batched, convolutions; prints
digests."""
import hashlib
from torch_common import device, torch


def digest(t):
    return hashlib.sha256(t.detach().float().cpu().numpy().tobytes()).hexdigest()[:16]


g = torch.Generator().manual_seed(2)
for kind in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
    a, b = (torch.randn(200, 200, generator=g).to(device, kind) for _ in range(2))
    c = a @ b
    assert torch.allclose(
        c.double().cpu(), a.double().cpu() @ b.double().cpu(), rtol=0.05, atol=0.5
    )
    print(kind, digest(c))
a = torch.randn(8, 50, 60, generator=g).to(device)
print('batched', digest(torch.bmm(a, a.transpose(1, 2))), 'gemv', digest(a[0] @ a[0, 0]))
x, w = torch.randn(4, 8, 20, 20, generator=g).to(device), torch.randn(16, 8, 3, 3, generator=g).to(
    device
)
print('convolution', digest(torch.nn.functional.conv2d(x, w, padding=1)))
big = torch.arange(1 << 24, dtype=torch.float32)
assert torch.equal(big.to(device).cpu(), big)
assert torch.equal(big.pin_memory().to(device, non_blocking=True).cpu(), big)
