# SPDX-License-Identifier: Apache-2.0
"""What programs do with NCCL, by ctypes alone, on two GPUs or one: nccl_calls.py CASE...

Each CASE is a function of that name here; it prints what it saw.
"""
import array
import ctypes
import os
import sys
import threading

P, Z, I32 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
FLOAT, INT32, SUM, PROD, MAX = 7, 2, 0, 1, 2

cuda = ctypes.CDLL('libcuda.so.1')
nccl = ctypes.CDLL(os.environ.get('RGPU_TEST_SHIM', 'libnccl.so.2'))
nccl.ncclGetLastError.restype = nccl.ncclGetErrorString.restype = ctypes.c_char_p


class UniqueId(ctypes.Structure):
    _fields_ = [('bytes', ctypes.c_char * 128)]


class Config(ctypes.Structure):
    """ncclConfig_t of NCCL 2.28, or its beginning where `size` is less."""

    _fields_ = [
        ('size', Z),
        ('magic', ctypes.c_uint),
        ('version', ctypes.c_uint),
        ('blocking', I32),
        ('cga', I32),
        ('min', I32),
        ('max', I32),
        ('net', ctypes.c_char_p),
        ('share', I32),
        ('traffic', I32),
        ('name', ctypes.c_char_p),
        ('rest', I32 * 6),
    ]

    def __init__(self, size=80, **more):
        undefined = -(2**31)
        super().__init__(size, 0xCAFEBEEF, 22809, *[undefined] * 4, None, undefined, undefined)
        for i in range(6):
            self.rest[i] = undefined
        for name, value in more.items():
            setattr(self, name, value)


def check(result, allowed=0):
    if result != allowed:
        sys.stdout.flush()
        raise SystemExit(f'gave {result}, not {allowed}: {nccl.ncclGetLastError(None).decode()}')


class Gpu:
    def __init__(self, device):
        self.device, self.context, self.stream = device, P(), P()
        check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), device))
        self.use()
        check(cuda.cuStreamCreate(ctypes.byref(self.stream), 1))
        self.comm = P()

    def use(self):
        check(cuda.cuCtxSetCurrent(self.context))
        return self

    def memory(self, values=None, count=None, kind='f'):
        values = array.array(kind, values if values is not None else [0] * count)
        address = ctypes.c_uint64()
        size = Z(max(1, len(values)) * 4)
        check(cuda.cuMemAlloc_v2(ctypes.byref(address), size))
        raw = values.tobytes()
        check(cuda.cuMemcpyHtoD_v2(address, raw, Z(len(raw))))
        return address

    def read(self, address, count, kind='f'):
        self.use()
        check(cuda.cuStreamSynchronize(self.stream))
        values = array.array(kind, [0] * count)
        raw = (ctypes.c_char * (count * 4)).from_buffer(values)
        check(cuda.cuMemcpyDtoH_v2(raw, address, Z(count * 4)))
        return list(values)


def start(count=2):
    check(cuda.cuInit(0))
    return [Gpu(i) for i in range(count)]


def all_of(count=2):
    gpus = start(count)
    comms = (P * count)()
    check(nccl.ncclCommInitAll(comms, count, None))
    for gpu, comm in zip(gpus, comms):
        gpu.comm = P(comm)
    return gpus


class group:
    """with group(): ... ends it, and checks that."""

    def __init__(self, result=0):
        self.result = result

    def __enter__(self):
        check(nccl.ncclGroupStart())

    def __exit__(self, kind, *_):
        if kind is None:
            check(nccl.ncclGroupEnd(), self.result)


def all_reduce(gpu, source, target, count, op=SUM, kind=FLOAT):
    return nccl.ncclAllReduce(source, target, Z(count), kind, op, gpu.comm, gpu.stream)


def version():
    number = I32()
    check(nccl.ncclGetVersion(ctypes.byref(number)))
    print('version', number.value, nccl.ncclGetErrorString(4).decode())


def collectives():
    "each one, in groups of two GPUs"
    gpus = all_of()
    for gpu in gpus:
        count, rank, device = I32(), I32(), I32()
        check(nccl.ncclCommCount(gpu.comm, ctypes.byref(count)))
        check(nccl.ncclCommUserRank(gpu.comm, ctypes.byref(rank)))
        check(nccl.ncclCommCuDevice(gpu.comm, ctypes.byref(device)))
        print('rank', rank.value, 'of', count.value, 'device', device.value)

    def run(name, call, sizes=(2, 2), show=(0, 1)):
        sources = [g.use().memory([g.device * 10 + i for i in range(sizes[0])]) for g in gpus]
        targets = [g.use().memory(count=sizes[1]) for g in gpus]
        with group():
            for g, s, t in zip(gpus, sources, targets):
                check(call(g, s, t))
        for i in show:
            print(name, gpus[i].read(targets[i], sizes[1]))

    two = Z(2)
    run('all-reduce', lambda g, s, t: all_reduce(g, s, t, 2))
    run('maximum', lambda g, s, t: all_reduce(g, s, t, 2, MAX))
    run(
        'reduce',
        lambda g, s, t: nccl.ncclReduce(
            s, t if g.device == 1 else None, two, FLOAT, SUM, 1, g.comm, g.stream
        ),
        show=(1,),
    )
    run(
        'broadcast',
        lambda g, s, t: nccl.ncclBroadcast(
            s if g.device == 1 else None, t, two, FLOAT, 1, g.comm, g.stream
        ),
    )
    run('bcast', lambda g, s, t: nccl.ncclBcast(t, two, FLOAT, 0, g.comm, g.stream))
    run(
        'all-gather',
        lambda g, s, t: nccl.ncclAllGather(s, t, two, FLOAT, g.comm, g.stream),
        sizes=(2, 4),
    )
    run(
        'reduce-scatter',
        lambda g, s, t: nccl.ncclReduceScatter(s, t, two, FLOAT, SUM, g.comm, g.stream),
        sizes=(4, 2),
    )
    run(
        'all-to-all',
        lambda g, s, t: nccl.ncclAlltoAll(s, t, two, FLOAT, g.comm, g.stream),
        sizes=(4, 4),
    )
    run(
        'gather',
        lambda g, s, t: nccl.ncclGather(
            s, t if g.device == 0 else None, two, FLOAT, 0, g.comm, g.stream
        ),
        sizes=(2, 4),
        show=(0,),
    )
    run(
        'scatter',
        lambda g, s, t: nccl.ncclScatter(
            s if g.device == 0 else None, t, two, FLOAT, 0, g.comm, g.stream
        ),
        sizes=(4, 2),
    )
    run(
        'swap',
        lambda g, s, t: nccl.ncclSend(s, two, FLOAT, 1 - g.device, g.comm, g.stream)
        or nccl.ncclRecv(t, two, FLOAT, 1 - g.device, g.comm, g.stream),
    )
    run('in place', lambda g, s, t: all_reduce(g, t, t, 2))
    run('none', lambda g, s, t: all_reduce(g, s, t, 0))
    for gpu in gpus:
        check(nccl.ncclCommFinalize(gpu.comm))
        check(nccl.ncclCommDestroy(gpu.comm))
        print('afterwards', all_reduce(gpu, None, None, 0))


def operators():
    gpus = all_of()
    half, third = ctypes.c_float(0.5), gpus[1].use().memory([2.0])
    ops = [I32(), I32()]
    create = nccl.ncclRedOpCreatePreMulSum
    check(create(ctypes.byref(ops[0]), ctypes.byref(half), FLOAT, 1, gpus[0].comm))
    check(create(ctypes.byref(ops[1]), third, FLOAT, 0, gpus[1].comm))
    print('operators', ops[0].value >= 5, ops[0].value != ops[1].value)
    sources = [g.use().memory([4.0, 8.0]) for g in gpus]
    with group():
        for g, s, op in zip(gpus, sources, ops):
            check(all_reduce(g, s, s, 2, op.value))
    print('scaled', gpus[0].read(sources[0], 2))
    print("another's", all_reduce(gpus[0], sources[0], sources[0], 2, ops[1].value))
    check(nccl.ncclRedOpDestroy(ops[0], gpus[0].comm))
    print('destroyed', all_reduce(gpus[0], sources[0], sources[0], 2, ops[0].value))
    handle, size = P(), Z(8)
    check(nccl.ncclCommRegister(gpus[0].comm, sources[0], size, ctypes.byref(handle)))
    check(nccl.ncclCommDeregister(gpus[0].comm, handle))
    print('twice', nccl.ncclCommDeregister(gpus[0].comm, handle))
    window, memory = P(1), P()
    check(nccl.ncclMemAlloc(ctypes.byref(memory), Z(4096)))
    check(nccl.ncclCommWindowRegister(gpus[0].comm, memory, Z(4096), ctypes.byref(window), I32(1)))
    check(nccl.ncclCommWindowDeregister(gpus[0].comm, window))
    check(nccl.ncclMemFree(memory))
    print('window', window.value)


def configs():
    "by unique id, with configs of several lengths; split and shrunk"
    gpus = start()
    unique = UniqueId()
    check(nccl.ncclGetUniqueId(ctypes.byref(unique)))
    config = Config(name=b'named', net=b'Socket', blocking=1)
    short = Config(size=32)
    with group():
        for g, c in zip(gpus, (config, short)):
            g.use()
            check(
                nccl.ncclCommInitRankConfig(
                    ctypes.byref(g.comm), 2, unique, g.device, ctypes.byref(c)
                )
            )
    halves = [P(), P()]
    with group():
        for g, half in zip(gpus, halves):
            g.use()
            check(nccl.ncclCommSplit(g.comm, g.device, 0, ctypes.byref(half), None))
    check(nccl.ncclCommSplit(gpus[0].comm, -1, 0, ctypes.byref(halves[0]), None))
    print('no colour', halves[0].value)
    less = P()
    excluded = (I32 * 1)(1)
    gpus[0].use()
    check(nccl.ncclCommShrink(gpus[0].comm, excluded, 1, ctypes.byref(less), None, 0))
    count = I32()
    check(nccl.ncclCommCount(less, ctypes.byref(count)))
    print('shrunk', count.value)
    alone = P()
    ids = (UniqueId * 2)()
    for one in ids:
        check(nccl.ncclGetUniqueId(ctypes.byref(one)))
    check(nccl.ncclCommInitRankScalable(ctypes.byref(alone), 1, 0, 2, ids, None))
    bad = Config(magic=1)
    print(
        'no config',
        nccl.ncclCommInitRankConfig(ctypes.byref(alone), 1, unique, 0, ctypes.byref(bad)),
        alone.value,
        nccl.ncclGetLastError(None).decode(),
    )
    # Without waiting.
    check(nccl.ncclGetUniqueId(ctypes.byref(unique)))
    later = Config(blocking=0)
    error = I32()
    for g in gpus:
        g.use()
        g.comm = P()
        check(
            nccl.ncclCommInitRankConfig(
                ctypes.byref(g.comm), 2, unique, g.device, ctypes.byref(later)
            ),
            7,
        )
        check(nccl.ncclCommGetAsyncError(g.comm, ctypes.byref(error)))
        print('state', error.value)


KERNEL = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry slow(.param .u64 to)
{
    .reg .u64 %a; .reg .f32 %f; .reg .u32 %n; .reg .pred %p;
    ld.param.u64 %a, [to];
    mov.u32 %n, 0;
again:
    ld.volatile.global.f32 %f, [%a];
    add.u32 %n, %n, 1;
    setp.lt.u32 %p, %n, 3000000;
    @%p bra again;
    add.f32 %f, %f, 0f3F800000;
    st.global.f32 [%a], %f;
    ret;
}
"""


def order():
    "a collective comes behind what was posted to its stream before it"
    gpus = all_of()
    module, function = P(), P()
    gpu = gpus[0].use()
    check(cuda.cuModuleLoadData(ctypes.byref(module), KERNEL))
    check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b'slow'))
    sources = [g.use().memory([1.0, 2.0]) for g in gpus]
    seen = []

    @ctypes.CFUNCTYPE(None, P)
    def called(_):
        seen.append('called')

    gpu.use()
    arguments = (P * 1)(ctypes.cast(ctypes.byref(sources[0]), P))
    one = [1] * 6
    check(cuda.cuLaunchKernel(function, *one, 0, gpu.stream, arguments, None))
    check(cuda.cuLaunchHostFunc(gpu.stream, called, None))
    check(cuda.cuLaunchKernel(function, *one, 0, gpu.stream, arguments, None))
    with group():
        for g, s in zip(gpus, sources):
            check(all_reduce(g, s, s, 2))
    check(cuda.cuLaunchKernel(function, *one, 0, gpu.stream, arguments, None))
    print('behind', gpu.read(sources[0], 2), gpus[1].read(sources[1], 2), seen)


def aborted():
    "a call that waits for a rank that never comes, and another thread"
    gpu = start(1)[0]
    unique = UniqueId()
    check(nccl.ncclGetUniqueId(ctypes.byref(unique)))
    comm = P()

    def wait():
        gpu.use()
        print('blocked', nccl.ncclCommInitRank(ctypes.byref(comm), 2, unique, 0), comm.value)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not comm.value:
        pass
    handle = P(comm.value)
    waiting.join(0.3)
    # Other calls go on meanwhile.
    print('others', gpu.use().read(gpu.memory([3.0]), 1), waiting.is_alive())
    check(nccl.ncclCommAbort(handle))
    waiting.join()
    print('twice', nccl.ncclCommAbort(handle))


def wrong():
    "arguments that are none"
    gpus = all_of()
    g = gpus[0].use()
    buffer = g.memory([1.0, 2.0])
    host = ctypes.create_string_buffer(64)
    print('type', nccl.ncclAllReduce(buffer, buffer, Z(2), 99, SUM, g.comm, g.stream))
    print('operator', all_reduce(g, buffer, buffer, 2, 77))
    print('too long', all_reduce(g, buffer, buffer, 1 << 40), nccl.ncclGetLastError(None).decode())
    print('wraps', all_reduce(g, buffer, buffer, (1 << 62) + 1))
    print('host', all_reduce(g, P(ctypes.addressof(host)), buffer, 2))
    print('stream', nccl.ncclAllReduce(buffer, buffer, Z(2), FLOAT, SUM, g.comm, P(0x1234)))
    print('communicator', nccl.ncclAllReduce(buffer, buffer, Z(2), FLOAT, SUM, P(8), g.stream))
    print('root', nccl.ncclBcast(buffer, Z(2), FLOAT, 2, g.comm, g.stream))
    print('rank', nccl.ncclCommInitRank(ctypes.byref(P()), 1, UniqueId(), 1))
    print('no end', nccl.ncclGroupEnd())
    check(nccl.ncclGroupStart())
    print('in a group', all_reduce(g, buffer, buffer, 2, 77))
    print('its end', nccl.ncclGroupEnd())
    print('not there', nccl.ncclSignal(0, 0, 0, 0, g.comm, g.stream))
    managed = ctypes.c_uint64()
    check(cuda.cuMemAllocManaged(ctypes.byref(managed), Z(4096), 1))
    print('managed', all_reduce(g, managed, buffer, 2))
    sources = [gpu.use().memory([1.0]) for gpu in gpus]
    with group():
        for gpu, s in zip(gpus, sources):
            check(all_reduce(gpu, s, s, 1))
    print('and goes on', g.read(sources[0], 1))


def threads():
    "so many of a program call at the same time, each for its own communicator"
    count = int(os.environ['RGPU_TEST_THREADS'])
    gpu = start(1)[0]
    results = [None] * count
    ready = threading.Barrier(count)

    def work(i):
        gpu.use()
        comm, unique, error = P(), UniqueId(), I32()
        check(nccl.ncclGetUniqueId(ctypes.byref(unique)))
        buffer = gpu.memory([float(i)])
        ready.wait()
        check(nccl.ncclCommInitRank(ctypes.byref(comm), 1, unique, 0))
        for _ in range(3):
            check(nccl.ncclAllReduce(buffer, buffer, Z(1), FLOAT, SUM, comm, gpu.stream))
        check(nccl.ncclCommGetAsyncError(comm, ctypes.byref(error)))
        results[i] = gpu.read(buffer, 1) == [float(i)] and error.value == 0
        check(nccl.ncclCommDestroy(comm))

    all_threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()
    print('threads', sum(map(bool, results)))


def too_many():
    "so many wait for ranks that never come"
    count = int(os.environ['RGPU_TEST_THREADS'])
    gpu = start(1)[0]
    results, comms = [], [P() for _ in range(count)]
    refused = threading.Event()

    def wait(i):
        unique = UniqueId()
        gpu.use()
        check(nccl.ncclGetUniqueId(ctypes.byref(unique)))
        results.append(nccl.ncclCommInitRank(ctypes.byref(comms[i]), 2, unique, 0))
        if results[-1] == 2:
            refused.set()

    for i in range(count):
        threading.Thread(target=wait, args=(i,), daemon=True).start()
    print('refused', refused.wait(30), set(results), flush=True)
    os._exit(0)


def hang():
    "until it is killed"
    gpu = start(1)[0].use()
    unique = UniqueId()
    check(nccl.ncclGetUniqueId(ctypes.byref(unique)))
    print('hangs', flush=True)
    nccl.ncclCommInitRank(ctypes.byref(gpu.comm), 2, unique, 0)


def refused():
    "a lease that may not have NCCL"
    check(cuda.cuInit(0))
    Gpu(0)
    unique, comm = UniqueId(), P()
    print(
        'refused',
        nccl.ncclGetUniqueId(ctypes.byref(unique)),
        nccl.ncclCommInitRank(ctypes.byref(comm), 1, unique, 0),
        nccl.ncclCommInitAll(ctypes.byref(comm), 1, None),
        comm.value,
    )


if __name__ == '__main__':
    for case in sys.argv[1:]:
        globals()[case]()
