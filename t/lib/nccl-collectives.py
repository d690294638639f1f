# SPDX-License-Identifier: Apache-2.0
"""One process with two GPUs runs NCCL's collectives on both, and compares with the CPU's results.
Prints a line for each that is wrong, and "right" at the end.

nccl-collectives.py LIBNCCL few|all [COLLECTIVE...]

`few` is what takes a quarter of a minute on software GPUs, where each new kernel is compiled.
"""
import ctypes
import sys

import numpy as np

RANKS = 2
# ncclDataType_t. numpy has no bfloat16: the upper halves of floats.
TYPES = {
    'int8': (0, np.int8),
    'uint8': (1, np.uint8),
    'int32': (2, np.int32),
    'uint32': (3, np.uint32),
    'int64': (4, np.int64),
    'uint64': (5, np.uint64),
    'float16': (6, np.float16),
    'float32': (7, np.float32),
    'float64': (8, np.float64),
    'bfloat16': (9, np.uint16),
}
SUM, PROD, MAX, MIN, AVG = range(5)  # ncclRedOp_t
OPERATIONS = {'sum': SUM, 'prod': PROD, 'max': MAX, 'min': MIN, 'avg': AVG}

cuda = ctypes.CDLL('libcuda.so.1')
nccl = ctypes.CDLL(sys.argv[1])
nccl.ncclGetLastError.restype = ctypes.c_char_p


def check(result, what='a call of CUDA'):
    if result:
        sys.exit(f'{what} gave {result}: {nccl.ncclGetLastError(None).decode()}')


class Rank:
    """A GPU with two buffers and a stream."""

    def __init__(self, device, room):
        self.context, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.device = device
        check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), device))
        self.use()
        check(cuda.cuStreamCreate(ctypes.byref(self.stream), 1))
        self.source, self.target = self.buffer(room), self.buffer(room)

    def use(self):
        check(cuda.cuCtxSetCurrent(self.context))

    def buffer(self, room):
        address = ctypes.c_uint64()
        check(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(room)))
        return address

    def give(self, array, target_bytes):
        self.use()
        check(cuda.cuMemcpyHtoD_v2(self.source, array.ctypes, ctypes.c_size_t(array.nbytes)))
        check(cuda.cuMemsetD8_v2(self.target, 0xEE, ctypes.c_size_t(target_bytes)))
        check(cuda.cuCtxSynchronize())

    def take(self, count, kind):
        self.use()
        check(cuda.cuStreamSynchronize(self.stream))
        array = np.empty(count, kind)
        check(cuda.cuMemcpyDtoH_v2(array.ctypes, self.target, ctypes.c_size_t(array.nbytes)))
        return array


def bfloat16(values):
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def values(name, count, rank):
    """Small numbers, so that sums and products are exact in every type."""
    numbers = (np.arange(count) * 7 + rank * 3) % 9 + rank
    if name == 'bfloat16':
        return bfloat16(numbers)
    return numbers.astype(TYPES[name][1])


def reduced(name, operation, parts):
    if name == 'bfloat16':
        return bfloat16(reduced('float32', operation, [plain(p) for p in parts]))
    a, b = parts
    if operation == 'avg':
        total = a + b
        return total // 2 if total.dtype.kind in 'iu' else (total / 2).astype(total.dtype)
    function = {'sum': np.add, 'prod': np.multiply, 'max': np.maximum, 'min': np.minimum}[operation]
    return function(a, b)


def plain(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


class Collectives:
    """Each gives NCCL a call for one rank, and says what the ranks must have then."""

    def __init__(self, ranks, communicators):
        self.ranks, self.communicators = ranks, communicators

    def run(self, call):
        check(nccl.ncclGroupStart())
        for rank, communicator in zip(self.ranks, self.communicators):
            call(rank, communicator)
        check(nccl.ncclGroupEnd(), 'ncclGroupEnd')

    def wrong(self, collective, name, operation, count):
        number, kind = TYPES[name]
        call, each, wanted = getattr(self, collective)(name, operation, count)
        sources = [values(name, count, r) for r in range(RANKS)]
        size = np.dtype(kind).itemsize
        for rank, source in zip(self.ranks, sources):
            rank.give(source, each * size + 64)
        self.run(lambda rank, communicator: check(call(rank, communicator, number), collective))
        bad = 0
        for r, rank in enumerate(self.ranks):
            got = rank.take(each + 64 // size, kind)
            if (right := wanted(sources, r)) is not None:
                bad += int(np.sum(got[:each] != right))
            bad += int(np.sum(got[each:].view(np.uint8) != 0xEE))
        return bad

    def all_reduce(self, name, operation, count):
        return (
            lambda r, c, t: nccl.ncclAllReduce(
                r.source, r.target, ctypes.c_size_t(count), t, OPERATIONS[operation], c, r.stream
            ),
            count,
            lambda sources, rank: reduced(name, operation, sources),
        )

    def reduce(self, name, operation, count):
        return (
            lambda r, c, t: nccl.ncclReduce(
                r.source, r.target, ctypes.c_size_t(count), t, OPERATIONS[operation], 1, c, r.stream
            ),
            count,
            lambda sources, rank: reduced(name, operation, sources) if rank == 1 else None,
        )

    def broadcast(self, name, operation, count):
        return (
            lambda r, c, t: nccl.ncclBroadcast(
                r.source, r.target, ctypes.c_size_t(count), t, 1, c, r.stream
            ),
            count,
            lambda sources, rank: sources[1],
        )

    def all_gather(self, name, operation, count):
        return (
            lambda r, c, t: nccl.ncclAllGather(
                r.source, r.target, ctypes.c_size_t(count), t, c, r.stream
            ),
            count * RANKS,
            lambda sources, rank: np.concatenate(sources),
        )

    def reduce_scatter(self, name, operation, count):
        half = count // RANKS
        return (
            lambda r, c, t: nccl.ncclReduceScatter(
                r.source, r.target, ctypes.c_size_t(half), t, OPERATIONS[operation], c, r.stream
            ),
            half,
            lambda sources, rank: reduced(
                name, operation, [s[rank * half : (rank + 1) * half] for s in sources]
            ),
        )

    def send_recv(self, name, operation, count):
        def swap(r, c, t):
            other = 1 - r.device
            amount = ctypes.c_size_t(count)
            return nccl.ncclSend(r.source, amount, t, other, c, r.stream) or nccl.ncclRecv(
                r.target, amount, t, other, c, r.stream
            )

        return swap, count, lambda sources, rank: sources[1 - rank]


def cases(how, wanted):
    reducing = ('all_reduce', 'reduce', 'reduce_scatter')
    if how == 'few':
        for collective in reducing + ('broadcast', 'all_gather', 'send_recv'):
            yield collective, 'float32', 'sum', 1 << 12
        for count in (1, 2, 1000, 1 << 16, (1 << 20) + 2):
            yield 'all_reduce', 'float32', 'sum', count
        yield 'all_reduce', 'int32', 'max', 1000
        yield 'all_reduce', 'bfloat16', 'sum', 1000
        return
    for collective in ('broadcast', 'all_gather', 'send_recv') + reducing:
        for name in TYPES:
            for operation in OPERATIONS if collective in reducing else ['sum']:
                for count in (2, 1000, 1 << 16, (1 << 20) + 2):
                    if not wanted or collective in wanted:
                        yield collective, name, operation, count


def main():
    check(cuda.cuInit(0))
    ranks = [Rank(device, 16 << 20) for device in range(RANKS)]
    communicators = (ctypes.c_void_p * RANKS)()
    check(nccl.ncclCommInitAll(communicators, RANKS, (ctypes.c_int * RANKS)(*range(RANKS))))
    collectives = Collectives(ranks, [ctypes.c_void_p(c) for c in communicators])
    failed = 0
    for case in cases(sys.argv[2], sys.argv[3:]):
        if bad := collectives.wrong(*case):
            print(*case, f'{bad} values are wrong', flush=True)
            failed += 1
    for communicator in communicators:
        check(nccl.ncclCommDestroy(ctypes.c_void_p(communicator)))
    print('right' if not failed else f'{failed} are wrong')


main()
