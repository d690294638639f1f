# SPDX-License-Identifier: Apache-2.0
"""A small GPT, trained for some steps; prints the losses to the last bit."""
from torch_common import device, show, torch
from torch import nn

words, length, width = 64, 32, 128


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        q, k, v = (
            t.view(*t.shape[:2], 4, -1).transpose(1, 2)
            for t in self.qkv(self.before(x)).chunk(3, -1)
        )
        a = (q @ k.transpose(-1, -2)) / q.shape[-1] ** 0.5
        a = a.masked_fill(torch.ones_like(a, dtype=torch.bool).triu(1), float('-inf')).softmax(-1)
        x = x + self.out((a @ v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.after(x))


net = nn.Sequential(
    nn.Embedding(words, width), Block(), Block(), nn.LayerNorm(width), nn.Linear(width, words)
).to(device)
optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3)
text = (torch.arange(20 * length * 8) * 7 % 61 % words).view(20, 8, length)
losses = []
for batch in text:
    x = batch.to(device)
    loss = nn.functional.cross_entropy(net(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
assert losses[-1] < losses[0]
show(losses)
