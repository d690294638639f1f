# SPDX-License-Identifier: Apache-2.0
"""Two processes, with a GPU each, join an NCCL communicator and connect (NCCL_RUNTIME_CONNECT=0):
each gets the other's buffers by descriptors of memory. No kernel is launched. Prints "right".

NCCL is the one that PyTorch's environment has. NCCL_DEBUG=INFO says what it did.
"""
import ctypes
import glob
import site
import sys

import nccl_ranks

RANKS = 2


def join(rank, path):
    (library,) = glob.glob(site.getsitepackages()[0] + '/nvidia/nccl/lib/libnccl.so.2')
    import torch  # after the fork: it loads the driver

    nccl = ctypes.CDLL(library)
    nccl.ncclGetLastError.restype = ctypes.c_char_p

    def check(result):
        assert result == 0, result

    unique = nccl_ranks.unique_id(nccl, rank, path, check)
    torch.cuda.set_device(rank)
    torch.zeros(1).cuda()
    communicator = ctypes.c_void_p()
    result = nccl.ncclCommInitRank(ctypes.byref(communicator), RANKS, unique, rank)
    if result:
        print(f'rank {rank}: {result}: {nccl.ncclGetLastError(None)}', file=sys.stderr)
    return result


nccl_ranks.run(RANKS, join)
