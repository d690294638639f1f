# SPDX-License-Identifier: Apache-2.0
"""Two processes with a GPU each all-reduce with NCCL: nccl-processes.py LIBNCCL

Prints a line for each size whose values are wrong, and "right" at the end.
"""
import ctypes
import sys

import nccl_ranks
import numpy as np

RANKS = 2
FLOAT, SUM = 7, 0  # ncclDataType_t, ncclRedOp_t


class Rank:
    def __init__(self, rank, path):
        self.rank = rank
        self.cuda, self.nccl = ctypes.CDLL('libcuda.so.1'), ctypes.CDLL(sys.argv[1])
        self.nccl.ncclGetLastError.restype = ctypes.c_char_p
        context, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.cuda.cuInit(0))
        self.check(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), rank))
        self.check(self.cuda.cuCtxSetCurrent(context))
        self.check(self.cuda.cuStreamCreate(ctypes.byref(self.stream), 1))
        self.communicator = ctypes.c_void_p()
        self.check(
            self.nccl.ncclCommInitRank(
                ctypes.byref(self.communicator),
                RANKS,
                nccl_ranks.unique_id(self.nccl, rank, path, self.check),
                rank,
            )
        )

    def check(self, result):
        if result:
            sys.exit(f'rank {self.rank}: {result}: {self.nccl.ncclGetLastError(None)}')

    def all_reduce(self, count):
        values = (np.arange(count) % 100).astype(np.float32)
        mine, sums = values * (self.rank + 1), np.empty(count, np.float32)
        size = ctypes.c_size_t(mine.nbytes)
        source, target = ctypes.c_uint64(), ctypes.c_uint64()
        for address in (source, target):
            self.check(self.cuda.cuMemAlloc_v2(ctypes.byref(address), size))
        self.check(self.cuda.cuMemcpyHtoD_v2(source, mine.ctypes, size))
        self.check(
            self.nccl.ncclAllReduce(
                source, target, ctypes.c_size_t(count), FLOAT, SUM, self.communicator, self.stream
            )
        )
        self.check(self.cuda.cuStreamSynchronize(self.stream))
        self.check(self.cuda.cuMemcpyDtoH_v2(sums.ctypes, target, size))
        return int(np.sum(sums != values * 3))


def run(number, path):
    rank = Rank(number, path)
    failed = 0
    for count in (1, 1000, 1 << 14, 1 << 20, 1000):
        if wrong := rank.all_reduce(count):
            print(f'rank {number}: {wrong} of {count} values are wrong', flush=True)
            failed = 1
    rank.check(rank.nccl.ncclCommDestroy(rank.communicator))
    return failed


nccl_ranks.run(RANKS, run)
