# SPDX-License-Identifier: Apache-2.0
"""A tensor on the GPU that a second process reads and writes (torch.multiprocessing): with
PyTorch's expandable segments by descriptors of memory, else by CUDA IPC. Prints how it was shared,
and "right".
"""
import os
import sys

import torch
import torch.multiprocessing as mp


def other(queue, done):
    for i, tensor in enumerate(iter(queue.get, None)):
        assert tensor.is_cuda, tensor.device
        held = tensor.cpu()
        assert torch.equal(held, torch.arange(len(held)) + i), held
        tensor.copy_(held * 2)
        torch.cuda.synchronize()
        del tensor
        done.put(i)


def main():
    context = mp.get_context('spawn')
    queue, done = context.Queue(), context.Queue()
    child = context.Process(target=other, args=(queue, done))
    child.start()
    # Small ones lie in one segment, the last needs several pieces of memory.
    for i, n in enumerate((1, 1000, 1_000_000, 8_000_000)):
        mine = (torch.arange(n) + i).cuda()
        queue.put(mine)
        assert done.get(timeout=120) == i
        assert torch.equal(mine.cpu(), (torch.arange(n) + i) * 2)
        del mine
    queue.put(None)
    child.join()
    assert child.exitcode == 0, child.exitcode
    segments = torch.cuda.memory_snapshot()
    print('expandable' if any(s.get('is_expandable') for s in segments) else 'plain')
    print('right')


if __name__ == '__main__':
    sys.stdout.reconfigure(line_buffering=True)
    assert os.environ.get('RGPU_LEASE'), 'this program wants a lease'
    main()
