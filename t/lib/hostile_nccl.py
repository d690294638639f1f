# SPDX-License-Identifier: Apache-2.0
"""A tenant whose client sends calls of NCCL that ours never would: hostile_nccl.py WORKER

Prints a line for each attack, each on a worker of its own: NAME: VERDICT, status N. The verdict
says what came of it: "refused with R" (an ncclResult_t, before NCCL saw it), "closed", or
"CARRIED OUT".
The worker's NCCL ($RGPU_WORKER_NCCL) says on its standard output what it is called for.
"""
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import wire_client  # noqa: E402

NCCL = 0xFFED
CONTEXT = 100
FLOAT, SUM = 7, 0
Q, I, S = struct.Struct('<Q').pack, struct.Struct('<I').pack, struct.Struct('<i').pack
ROOM = 4096


def text(s):
    return I(len(s)) + s.encode()


def call(name, *parameters):
    return text(name) + I(CONTEXT) + b''.join(parameters)


def frame(*calls, grouped=False, count=None, variables=()):
    body = I(len(variables)) + b''.join(text(v) for v in variables)
    return body + bytes([grouped]) + I(len(calls) if count is None else count) + b''.join(calls)


def make(number, ranks=1, rank=0, ident=b'x', config=b'\0', name='ncclCommInitRankConfig'):
    return call(name, I(number), S(ranks), ident.ljust(128, b'\0'), S(rank), config)


def reduce(source, target, count, kind=FLOAT, op=SUM, comm=1, stream=0):
    parts = Q(source), Q(target), Q(count), S(kind), S(op), I(comm), I(stream)
    return call('ncclAllReduce', *parts)


def config(size=80, magic=0xCAFEBEEF, told=None, net=None, name=None):
    body = struct.pack('<QII', size if told is None else told, magic, 22809)
    body = (body + b'\xff' * size)[:size]
    return b'\1' + I(size) + body + texts(net) + texts(name)


def texts(s):
    return b'\0' if s is None else b'\1' + text(s)


# NAME: frames from an address of the session's memory (ROOM bytes) and one of the worker's.
# First what a program could get wrong, too.
def mistakes():
    yield 'fair', lambda own, its: [frame(reduce(own, own, 4))]
    yield 'fair to the last byte', lambda own, its: [frame(reduce(own, own, ROOM // 4))]
    yield 'a variable of another version', lambda own, its: [
        frame(reduce(own, own, 4), variables=['NCCL_DEBUG_FILE=/tmp/x', 'LD_PRELOAD=x', 'x'])
    ]
    yield 'reads the worker', lambda own, its: [frame(reduce(its, own, 4))]
    yield 'writes the worker', lambda own, its: [frame(reduce(own, its, 4))]
    yield 'past its memory', lambda own, its: [frame(reduce(own, own, ROOM // 4 + 1))]
    yield 'far past its memory', lambda own, its: [frame(reduce(own, own, 1 << 60))]
    yield 'size that wraps', lambda own, its: [frame(reduce(own, own, (1 << 62) + 1))]
    yield 'size of ranks that wraps', lambda own, its: [
        frame(call('ncclAllGather', Q(own), Q(own), Q(1 << 61), S(8), I(1), I(0)))
    ]
    yield 'one of two types', lambda own, its: [frame(reduce(own, own, 4, kind=12))]
    yield 'type below', lambda own, its: [frame(reduce(own, own, 4, kind=-1))]
    yield 'no operator', lambda own, its: [frame(reduce(own, own, 4, op=5))]
    yield 'operator below', lambda own, its: [frame(reduce(own, own, 4, op=-1))]
    yield 'no communicator', lambda own, its: [frame(reduce(own, own, 4, comm=2))]
    yield 'communicator 0', lambda own, its: [frame(reduce(own, own, 4, comm=0))]
    yield 'no stream', lambda own, its: [frame(reduce(own, own, 4, stream=777))]
    yield 'root beyond', lambda own, its: [
        frame(call('ncclBcast', Q(own), Q(4), S(FLOAT), S(1), I(1), I(0)))
    ]
    yield 'root below', lambda own, its: [
        frame(call('ncclBcast', Q(own), Q(4), S(FLOAT), S(-1), I(1), I(0)))
    ]
    yield 'root that writes the worker', lambda own, its: [
        frame(call('ncclGather', Q(own), Q(its), Q(4), S(FLOAT), S(0), I(1), I(0)))
    ]
    yield 'scalar of the worker', lambda own, its: [
        frame(call('ncclRedOpCreatePreMulSum', I(5), Q(its), S(FLOAT), S(0), I(1)))
    ]
    yield 'operator of no communicator', lambda own, its: [
        frame(call('ncclRedOpCreatePreMulSum', I(5), Q(0), S(FLOAT), S(1), I(9)))
    ]
    yield 'registers the worker', lambda own, its: [
        frame(call('ncclCommRegister', I(1), Q(its), Q(64)))
    ]
    yield 'registers too much', lambda own, its: [
        frame(call('ncclCommRegister', I(1), Q(own), Q(1 << 50)))
    ]
    yield 'handle that is an address', lambda own, its: [
        frame(call('ncclCommDeregister', I(1), Q(its)))
    ]
    yield 'rank beyond', lambda own, its: [frame(make(2, 1, 1))]
    yield 'no ranks', lambda own, its: [frame(make(2, 0, 0))]
    yield 'another count of ids', lambda own, its: [
        frame(call('ncclCommInitRankScalable', I(2), S(1), S(0), S(2), I(1), b'x' * 128, b'\0'))
    ]
    yield 'another count of ranks', lambda own, its: [
        frame(call('ncclCommShrink', I(1), b'\1', I(1), S(0), S(5), I(2), b'\0', S(0)))
    ]
    yield 'no list of ranks', lambda own, its: [
        frame(call('ncclCommShrink', I(1), b'\0', I(0), S(1), I(2), b'\0', S(0)))
    ]
    yield 'ranks that are none', lambda own, its: [
        frame(call('ncclCommShrink', I(1), b'\1', I(1), S(1 << 30), S(1), I(2), b'\0', S(0)))
    ]
    yield 'too many ranks', lambda own, its: [frame(make(2, (1 << 31) - 1, 0))]
    yield 'destroyed twice', lambda own, its: [
        frame(call('ncclCommDestroy', I(1)), call('ncclCommDestroy', I(1)), grouped=True)
    ]
    yield 'one wrong in a group', lambda own, its: [
        frame(reduce(own, own, 4), reduce(own, its, 4), grouped=True)
    ]


# What no client sends.
def lies():
    yield 'no body', lambda own, its: [b'']
    yield 'too long', lambda own, its: [frame(reduce(own, own, 4)) + b'x']
    yield 'no calls', lambda own, its: [frame()]
    yield 'calls that do not follow', lambda own, its: [
        frame(reduce(own, own, 4), grouped=True, count=2)
    ]
    yield 'all calls', lambda own, its: [frame(grouped=True, count=(1 << 32) - 1)]
    yield 'two that are no group', lambda own, its: [
        frame(reduce(own, own, 4), reduce(own, own, 4))
    ]
    yield 'too many variables', lambda own, its: [I(1 << 31) + frame()[4:]]
    yield 'unknown function', lambda own, its: [frame(call('ncclFly'))]
    yield 'function of the client', lambda own, its: [frame(call('ncclGroupStart'))]
    yield 'function of nobody', lambda own, its: [frame(call('ncclSignal'))]
    yield 'question in a group', lambda own, its: [frame(call('ncclCommCount', I(1)), grouped=True)]
    yield 'number given twice', lambda own, its: [frame(make(1))]
    yield 'number 0', lambda own, its: [frame(make(0))]
    yield 'the same number in a list', lambda own, its: [
        frame(call('ncclCommInitAll', I(2), I(2), I(2), S(2), b'\0', I(0)))
    ]
    yield 'a list without end', lambda own, its: [frame(call('ncclCommInitAll', I((1 << 32) - 1)))]
    yield 'more ids than came', lambda own, its: [
        frame(call('ncclCommInitRankScalable', I(2), S(1), S(0), S(1), I((1 << 31) - 1)))
    ]
    yield 'operator of NCCL made', lambda own, its: [
        frame(call('ncclRedOpCreatePreMulSum', I(4), Q(0), S(FLOAT), S(1), I(1)))
    ]
    yield 'short config', lambda own, its: [frame(make(2, config=config(size=24)))]
    yield 'long config', lambda own, its: [frame(make(2, config=config(size=4000)))]
    yield 'long name', lambda own, its: [frame(make(2, config=config(name='n' * 300)))]
    yield 'config that lies', lambda own, its: [
        frame(make(2, config=config(told=1 << 40, magic=1)))
    ]
    good = frame(make(2, config=config(net='a', name='b')))
    for n in range(0, len(good), 7):
        yield f'cut at {n}', lambda own, its, n=n: [good[:n]]


def address_of_worker(pid):
    """Of its heap; under a sanitizer, which has none, of other memory of its own."""
    own = 0
    with open(f'/proc/{pid}/maps') as maps:
        for line in maps:
            words = line.split()
            if words[-1] == '[heap]':
                return int(words[0].split('-')[0], 16)
            if words[1] == 'rw-p' and len(words) == 5 and words[4] == '0':
                own = own or int(words[0].split('-')[0], 16)
    return own or sys.exit('the worker has no memory')


def ask(w, body):
    w.send(NCCL, body)
    while True:
        kind, sequence, result, answer = w.receive()
        if kind == wire_client.REPLY and sequence == w.sequence:
            return result, answer


def verdict(w, make_frames):
    own = wire_client.alive(w)
    result, answer = ask(w, frame(make(1), variables=['NCCL_DEBUG=INFO']))
    assert result == 0 and answer[:4] == S(0), (result, answer)
    try:
        for body in make_frames(own, address_of_worker(w.process.pid)):
            _, answer = ask(w, body)
    except (EOFError, ConnectionError):
        return 'closed'
    (result,) = struct.unpack_from('<i', answer)
    return f'refused with {result}' if result else 'CARRIED OUT'


def main():
    for name, make_frames in (*mistakes(), *lies()):
        w = wire_client.Worker(sys.argv[1])
        said = verdict(w, make_frames)
        w.close()
        status, err = w.end()
        print(f'{name}: {said}, status {status}', flush=True)
        if status not in (0, 3):
            sys.exit(err)


main()
