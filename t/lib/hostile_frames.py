# SPDX-License-Identifier: Apache-2.0
"""A tenant whose client sends frames that ours never would: they name the worker's own memory, or
the server's files.

hostile_frames.py worker WORKER
    one line for each attack, each on a worker of its own: NAME: VERDICT. The verdict says what came
    of it (closed, refused, READ, WRITTEN, CARRIED OUT) and what ended the worker.
hostile_frames.py placed WORKER
    the same for memory at addresses that the client chooses
hostile_frames.py lease PORT LEASE SECRET
    asks for memory, sends cuMemcpy, prints "closed" when the server has hung up
hostile_frames.py copies PORT LEASE SECRET COUNT
    makes so many copies of a box on the device, prints "copied", and holds its memory until
    standard input ends
"""
import os
import struct
import sys

arguments = sys.argv[1:]
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import handshake  # noqa: E402
import wire_client  # noqa: E402

SECRET = b'RGPU_TEST_SECRET=' + b'what only the worker knows '
CONTEXT, GRAPH, NODE, EXEC, STREAM = 100, 300, 301, 302, 0
HOST, DEVICE, ARRAY, UNIFIED = 1, 2, 3, 4
N = len(SECRET)


def box_2d(to, source, from_host=False):
    return struct.pack(
        '<B QQI4xQQQQ QQI4xQQQQ QQ',
        1,
        0,
        0,
        HOST if from_host else UNIFIED,
        source,
        source,
        0,
        N,
        0,
        0,
        UNIFIED,
        0,
        to,
        0,
        N,
        N,
        1,
    )


def box_3d(to, source, width=N, kind=DEVICE, height=1, depth=1, y=0):
    side = '4QI4x6Q'
    return struct.pack(
        '<B' + side + side + '3Q',
        1,
        0,
        y,
        0,
        0,
        kind,
        0,
        source,
        0,
        0,
        width,
        height,
        0,
        0,
        0,
        0,
        kind,
        0,
        to,
        0,
        0,
        width,
        height,
        width,
        height,
        depth,
    )


def memset_node(to):
    return struct.pack('<BQQIIQQ', 1, to, 0, 0x41, 1, N, 1)


def operations(to):
    one = struct.pack('<I4xQQI4xQ8x', 3, to, 0x41414141, 0, 0)  # CU_STREAM_MEM_OP_WRITE_VALUE_64
    return struct.pack('<BQ', 1, 1) + one


def resource(address):
    return struct.pack('<BI4xQIIQ', 1, 2, address, 8, 1, N) + bytes(104 + 8)


NO_NODES = struct.pack('<BQ', 0, 0)
Q = struct.Struct('<Q').pack
I = struct.Struct('<I').pack  # noqa: E741


def text(path):
    return struct.pack('<BI', 1, len(path)) + path


# NAME: (calls in front, the call, body from the address of the session's memory and of the worker's
# secret).
def attacks():
    copy = struct.Struct('<QQQ').pack
    yield 'cuMemcpy reads', 'cuMemcpy', lambda own, its: copy(own, its, N)
    yield 'cuMemcpy writes', 'cuMemcpy', lambda own, its: copy(its, own, N)
    yield 'cuMemcpyAsync reads', 'cuMemcpyAsync', lambda own, its: copy(own, its, N) + I(STREAM)
    yield 'cuMemcpyAsync writes', 'cuMemcpyAsync', lambda own, its: copy(its, own, N) + I(STREAM)
    for name in 'cuMemcpy2D_v2', 'cuMemcpy2DUnaligned_v2':
        yield f'{name} reads', name, lambda own, its: box_2d(own, its, True)
        yield f'{name} writes', name, lambda own, its: box_2d(its, own)
    yield 'cuMemcpy2DAsync_v2 reads', 'cuMemcpy2DAsync_v2', lambda own, its: box_2d(
        own, its, True
    ) + I(STREAM)
    yield 'cuMemcpy2DAsync_v2 writes', 'cuMemcpy2DAsync_v2', lambda own, its: box_2d(its, own) + I(
        STREAM
    )
    yield 'cuModuleLoad', 'cuModuleLoad', lambda own, its: I(200) + text(b'/etc/passwd')
    # Lines that clients send.
    async_copy = struct.Struct('<QQQI').pack
    yield 'device copy reads', 'cuMemcpyDtoDAsync_v2', lambda own, its: async_copy(
        own, its, N, STREAM
    )
    yield 'device copy writes', 'cuMemcpyDtoDAsync_v2', lambda own, its: async_copy(
        its, own, N, STREAM
    )
    yield 'device copy past its memory', 'cuMemcpyDtoDAsync_v2', lambda own, its: async_copy(
        own, own + 64, 1 << 45, STREAM
    )
    yield 'device copy round the end', 'cuMemcpyDtoDAsync_v2', lambda own, its: async_copy(
        own, own + 64, (1 << 64) - 64, STREAM
    )
    peer = struct.Struct('<QIQIQI').pack
    yield 'peer copy reads', 'cuMemcpyPeerAsync', lambda own, its: peer(
        own, CONTEXT, its, CONTEXT, N, STREAM
    )
    yield 'peer copy writes', 'cuMemcpyPeerAsync', lambda own, its: peer(
        its, CONTEXT, own, CONTEXT, N, STREAM
    )
    for kind in DEVICE, UNIFIED, HOST:
        yield f'box of kind {kind} reads', 'cuMemcpy3DAsync_v2', lambda own, its, k=kind: box_3d(
            own, its, kind=k
        ) + I(STREAM)
        yield f'box of kind {kind} writes', 'cuMemcpy3DAsync_v2', lambda own, its, k=kind: box_3d(
            its, own, kind=k
        ) + I(STREAM)
    yield 'box with a far row', 'cuMemcpy3DAsync_v2', lambda own, its: box_3d(
        own, own, y=(its - own) % (1 << 64) // N
    ) + I(STREAM)
    yield 'box whose size wraps', 'cuMemcpy3DAsync_v2', lambda own, its: box_3d(
        own, own, 1 << 32, height=1 << 32
    ) + I(STREAM)
    yield 'set of bytes', 'cuMemsetD8Async', lambda own, its: struct.pack(
        '<QBQI', its, 65, N, STREAM
    )
    yield 'set of words', 'cuMemsetD32Async', lambda own, its: struct.pack(
        '<QIQI', its & ~3, 65, 4, STREAM
    )
    yield 'set whose size wraps', 'cuMemsetD32Async', lambda own, its: struct.pack(
        '<QIQI', own, 65, (1 << 62) + 1, STREAM
    )
    yield 'set of rows', 'cuMemsetD2D8Async', lambda own, its: struct.pack(
        '<QQBQQI', own, its - own if its > own else 1 << 44, 65, 1, 2, STREAM
    )
    yield 'copy to the device', 'cuMemcpyHtoDAsync_v2', lambda own, its: struct.pack(
        '<QQI', its, N, STREAM
    ) + b'A' * N
    yield 'copy to the host', 'cuMemcpyDtoHAsync_v2', lambda own, its: struct.pack(
        '<QQI', its, N, STREAM
    )
    yield 'large copy to the host', 'cuMemcpyDtoHAsync_v2', lambda own, its: struct.pack(
        '<QQI', its & ~4095, 8 << 20, STREAM
    )
    yield 'value of 32 bits', 'cuStreamWriteValue32_v2', lambda own, its: struct.pack(
        '<IQII', STREAM, its & ~3, 65, 0
    )
    yield 'value of 64 bits', 'cuStreamWriteValue64_v2', lambda own, its: struct.pack(
        '<IQQI', STREAM, its & ~7, 65, 0
    )
    yield 'wait for a value', 'cuStreamWaitValue32_v2', lambda own, its: struct.pack(
        '<IQII', STREAM, its & ~3, 0, 0
    )
    yield 'batch of operations', 'cuStreamBatchMemOp_v2', lambda own, its: struct.pack(
        '<II', STREAM, 1
    ) + operations(its & ~7) + I(0)
    yield 'graph that sets', 'cuGraphAddMemsetNode', lambda own, its: I(NODE) + I(
        GRAPH
    ) + NO_NODES + Q(0) + memset_node(its) + I(CONTEXT)
    yield 'graph that copies', 'cuGraphAddMemcpyNode', lambda own, its: I(NODE) + I(
        GRAPH
    ) + NO_NODES + Q(0) + box_3d(own, its) + I(CONTEXT)
    yield 'graph that frees', 'cuGraphAddMemFreeNode', lambda own, its: I(NODE) + I(
        GRAPH
    ) + NO_NODES + Q(0) + Q(its)
    yield 'texture', 'cuTexObjectCreate', lambda own, its: b'\x01' + resource(
        its
    ) + b'\x01' + bytes(104) + b'\x00'
    yield 'free', 'cuMemFree_v2', lambda own, its: Q(its)
    yield 'free in a stream', 'cuMemFreeAsync', lambda own, its: Q(its) + I(STREAM)
    yield 'handle for others', 'cuIpcGetMemHandle', lambda own, its: b'\x01' + Q(its)
    yield 'memory handle that is an address', 'cuMemRelease', lambda own, its: Q(its)
    yield 'texture that is an address', 'cuTexObjectDestroy', lambda own, its: Q(its)
    # Steps, types, and names of worker/calls/shareable.cc and wire/shareable.h.
    name = struct.pack('<IQ16sI', 1, 0x1234, bytes(range(16)), 0)
    word = I(len(name)) + name
    yield 'descriptor of an address', 'cuMemExportToShareableHandle', lambda own, its: I(0) + Q(
        its
    ) + I(1) + Q(0)
    yield 'made-up name', 'cuMemImportFromShareableHandle', lambda own, its: word
    yield 'name that is none', 'cuMemImportFromShareableHandle', lambda own, its: I(3) + b'abc'
    yield 'end of a made-up name', 'cuMemExportToShareableHandle', lambda own, its: I(1) + word
    yield 'pool of a made-up name', 'cuMemPoolImportFromShareableHandle', lambda own, its: I(
        NODE
    ) + Q(0) + word
    yield 'pointer that is no pool memory', 'cuMemPoolExportPointer', lambda own, its: b'\x01' + Q(
        its
    )
    yield 'unmapping', 'cuMemUnmap', lambda own, its: Q(its & ~4095) + Q(4096)
    yield 'mapping', 'cuMemMap', lambda own, its: struct.pack(
        '<QQQQQ', its & ~4095, 4096, 0, its, 0
    )
    yield 'giving addresses back', 'cuMemAddressFree', lambda own, its: Q(its & ~4095) + Q(2 << 20)


PLACED = 0xFFEE  # memory at addresses that the client chooses (protocol.md, "Bands")
PAGE = 2 << 20


def credit(n, addresses=(), device=0, count=None):
    body = struct.pack('<IiIQ', 0, device, len(addresses) if count is None else count, n)
    return body + b''.join(Q(a) for a in addresses)


def placed(address, n):
    return struct.pack('<IQQ', 1, address, n)


def back(n, device=0):
    return struct.pack('<IiQ', 2, device, n)


def pages(address, n, device=0):
    return struct.pack('<IiQQ', 3, device, address, n)


def give(address, n):
    return struct.pack('<IQQ', 4, address, n)


def piece(n, device=0):
    return struct.pack('<IiQ', 5, device, n)


# NAME: frames from where the client's part begins, its credit in bytes, memory that the worker
# placed, and the worker's secret. All but the last are what a client may say.
def placed_attacks():
    yield 'nothing wrong', lambda part, had, own, its: [
        placed(part, 100),
        placed(part + 512, 1 << 20),
        placed(part + PAGE, 2 * PAGE),
        pages(part + 3 * PAGE, 2 * PAGE),
        give(part + 4 * PAGE, PAGE),
        pages(part + 5 * PAGE, PAGE),
        give(part + 3 * PAGE, PAGE),
        give(part + 5 * PAGE, PAGE),
        back(had - 3 * PAGE),
    ]
    yield 'more than the credit', lambda part, had, own, its: [
        placed(part + i * PAGE, PAGE) for i in range(had // PAGE + 1)
    ]
    yield 'credit that was given back', lambda part, had, own, its: [back(had), placed(part, 1)]
    yield 'more given back than it has', lambda part, had, own, its: [back(had + PAGE)]
    yield 'given back twice', lambda part, had, own, its: [back(had), back(PAGE)]
    yield 'given back while in use', lambda part, had, own, its: [placed(part, 1), back(had)]
    yield 'half a page given back', lambda part, had, own, its: [back(PAGE // 2)]
    yield 'credit of no device', lambda part, had, own, its: [back(PAGE, -1)]
    yield 'no credit of no device', lambda part, had, own, its: [back(0, 1 << 20)]
    yield 'the same twice', lambda part, had, own, its: [placed(part, 4096)] * 2
    yield 'inside of another', lambda part, had, own, its: [
        placed(part, 4096),
        placed(part + 512, 512),
    ]
    yield 'over the end of a page', lambda part, had, own, its: [placed(part + PAGE - 512, 1024)]
    yield 'between units', lambda part, had, own, its: [placed(part + 1, 1)]
    yield 'between pages', lambda part, had, own, its: [placed(part + 512, 2 * PAGE)]
    yield 'no bytes', lambda part, had, own, its: [placed(part, 0)]
    yield 'all bytes', lambda part, had, own, its: [placed(part, (1 << 64) - 1)]
    yield 'before its part', lambda part, had, own, its: [placed(part - PAGE, 1)]
    yield 'behind its part', lambda part, had, own, its: [placed(part + (1 << 39), 1)]
    yield 'where the worker placed memory', lambda part, had, own, its: [placed(own, 1)]
    yield "the worker's own memory", lambda part, had, own, its: [placed(its & ~511, 1)]
    yield 'the last address', lambda part, had, own, its: [placed((1 << 64) - 512, 512)]
    yield 'a body too short', lambda part, had, own, its: [placed(part, 1)[:-1]]
    yield 'a body too long', lambda part, had, own, its: [placed(part, 1) + b'x']
    yield 'no step', lambda part, had, own, its: [b'']
    yield 'a step that is none', lambda part, had, own, its: [I(6) + Q(part)]
    yield 'too much credit', lambda part, had, own, its: [credit(33 << 20)]
    yield 'more addresses than follow', lambda part, had, own, its: [credit(0, [own], count=2)]
    yield 'too many addresses', lambda part, had, own, its: [credit(0, [own] * 5000)]


# The same for the pages of pools.
def pool_attacks():
    yield 'more pages than the credit', lambda part, had, own, its: [
        pages(part + i * PAGE, PAGE) for i in range(had // PAGE + 1)
    ]
    yield 'more pages than at once', lambda part, had, own, its: [pages(part, 33 << 20)]
    yield 'half a page', lambda part, had, own, its: [pages(part, PAGE // 2)]
    yield 'a page between pages', lambda part, had, own, its: [pages(part + 512, PAGE)]
    yield 'no pages', lambda part, had, own, its: [pages(part, 0)]
    yield 'all pages', lambda part, had, own, its: [pages(part, (1 << 64) - PAGE)]
    yield 'pages of no device', lambda part, had, own, its: [pages(part, PAGE, -1)]
    yield 'pages of another device', lambda part, had, own, its: [pages(part, PAGE, 7)]
    yield 'a page before its part', lambda part, had, own, its: [pages(part - PAGE, PAGE)]
    yield 'pages over its end', lambda part, had, own, its: [
        pages(part + (1 << 39) - PAGE, 2 * PAGE)
    ]
    yield 'the last page', lambda part, had, own, its: [pages((1 << 64) - PAGE, PAGE)]
    yield 'a page twice', lambda part, had, own, its: [pages(part, PAGE)] * 2
    yield 'a page where memory is', lambda part, had, own, its: [
        placed(part, 512),
        pages(part, PAGE),
    ]
    yield "memory in a pool's page", lambda part, had, own, its: [
        pages(part, PAGE),
        placed(part + 512, 512),
    ]
    yield 'a page that it has not', lambda part, had, own, its: [give(part, PAGE)]
    yield 'a page given twice', lambda part, had, own, its: [
        pages(part, PAGE),
        give(part, PAGE),
        give(part, PAGE),
    ]
    yield 'a page that is given and used', lambda part, had, own, its: [
        pages(part, 2 * PAGE),
        give(part, 3 * PAGE),
    ]
    yield 'a part of a page given', lambda part, had, own, its: [
        pages(part, PAGE),
        give(part, PAGE // 2),
    ]
    yield 'no pages given', lambda part, had, own, its: [pages(part, PAGE), give(part, 0)]
    yield 'all pages given', lambda part, had, own, its: [
        pages(part, PAGE),
        give(part, (1 << 64) - PAGE),
    ]
    yield "a context's memory given", lambda part, had, own, its: [
        placed(part, PAGE),
        give(part, PAGE),
    ]
    yield "the worker's pages given", lambda part, had, own, its: [give(own, PAGE)]
    yield "pages of the worker's own given", lambda part, had, own, its: [
        give(its & ~(PAGE - 1), PAGE)
    ]
    yield 'pages, and nothing behind', lambda part, had, own, its: [pages(part, PAGE)[:-1]]
    yield 'pages, and more behind', lambda part, had, own, its: [give(part, PAGE) + b'x']
    yield 'a piece that is small', lambda part, had, own, its: [piece(32 << 20)]
    yield 'a piece that is too large', lambda part, had, own, its: [piece(1 << 60)]
    yield 'a piece and a half', lambda part, had, own, its: [piece((40 << 20) + 1)]
    yield 'a piece of no device', lambda part, had, own, its: [piece(40 << 20, -1)]
    yield 'a piece without a length', lambda part, had, own, its: [piece(0)[:-8]]


def ask_placed(w, body):
    """The answer to a step that has one."""
    w.send(PLACED, body, value=CONTEXT)
    kind, _, result, answer = w.receive()
    assert kind == wire_client.REPLY and result == 0, (kind, result)
    return answer


def with_credit(w):
    """Where the client's part begins, and its credit in bytes."""
    part, had, _, _ = struct.unpack('<QQII', ask_placed(w, credit(4 * PAGE)))
    assert had and had % PAGE == 0
    return part, had


def attack_placed(worker, frames):
    w = wire_client.Worker(worker)
    own = wire_client.alive(w)
    start, before = environment(w.process.pid)
    part, had = with_credit(w)
    verdict = 'CARRIED OUT'
    try:
        for body in frames(part, had, own, start + before.index(SECRET)):
            asks = body[:4] in (I(0), I(5))
            w.send(PLACED, body, flags=wire_client.WANTS_REPLY if asks else 0, value=CONTEXT)
        wait_for_stream(w)
    except (EOFError, ConnectionError):
        verdict = 'closed'
    w.close()
    status, said = w.end()
    why = ' by the rules' if "memory of the client's: " in said else ''
    return f'{verdict}{why}, status {status}'


def tell_placed(w, body):
    w.send(PLACED, body, flags=0, value=CONTEXT)


# What no call may do with memory of a pool, which goes as whole pages and by give() alone.
POOL_CALLS = {
    'free': ('cuMemFree_v2', Q),
    'free in a stream': ('cuMemFreeAsync', lambda address: Q(address) + I(STREAM)),
    'handle for others': ('cuIpcGetMemHandle', lambda address: b'\x01' + Q(address)),
}


def attack_pool(worker, call, body):
    """A call for addresses in a page, a page behind it, and a piece; then these are given back."""
    w = wire_client.Worker(worker)
    wire_client.alive(w)
    part, _ = with_credit(w)
    tell_placed(w, pages(part, 2 * PAGE))
    (large,) = struct.unpack('<Q', ask_placed(w, piece(34 << 20)))
    wait_for_stream(w)
    inside = part, part + 512, part + PAGE, part + 2 * PAGE - 1, large, large + PAGE, large + 512
    verdict = {w.ask(call, body(address), value=CONTEXT)[0] for address in inside}
    for frame in (give(part, PAGE), give(part + PAGE, PAGE), give(large, 34 << 20)):
        tell_placed(w, frame)
    wait_for_stream(w)
    verdict |= {w.ask(call, body(address), value=CONTEXT)[0] for address in inside}
    w.close()
    return f'refused with {", ".join(map(str, sorted(verdict)))}, status {w.end()[0]}'


def environment(pid):
    """Where the worker's environment lies, and what it holds now."""
    with open(f'/proc/{pid}/stat') as f:
        start = int(f.read().rpartition(')')[2].split()[47])
    with open(f'/proc/{pid}/environ', 'rb') as f:
        return start, f.read()


def wait_for_stream(w):
    assert w.ask('cuStreamSynchronize', I(STREAM), value=CONTEXT)[0] == 0


def content(w, address):
    """What the session's own memory holds."""
    result, answer = w.ask(
        'cuMemcpyDtoHAsync_v2', struct.pack('<QQI', address, N, STREAM), value=CONTEXT
    )
    return answer if not result else b''


def attack(worker, call, body):
    w = wire_client.Worker(worker)
    own = wire_client.alive(w)
    assert w.ask('cuGraphCreate', I(GRAPH) + I(0), value=CONTEXT)[0] == 0
    start, before = environment(w.process.pid)
    verdict = []
    try:
        result, answer = w.ask(call, body(own, start + before.index(SECRET)), value=CONTEXT)
        verdict.append(f'refused with {result}' if result else 'CARRIED OUT')
        if call == 'cuMemcpyDtoHAsync_v2' and SECRET[:16] in answer:
            verdict = ['READ']
        elif not result:
            wait_for_stream(w)
        if SECRET in content(w, own):
            verdict = ['READ']
    except (EOFError, ConnectionError):
        verdict.append('closed')
    try:
        if environment(w.process.pid)[1] not in (before, b''):
            verdict = ['WRITTEN']
    except OSError:
        pass  # it has ended
    w.close()
    status, said = w.end()
    called = ' (call number)' if f'({call}) is not one that a client sends' in said else ''
    return f'{", ".join(verdict)}{called}, status {status}'


class Tenant(wire_client.Worker):
    """Over rgpud's data port."""

    def __init__(self, port, lease, secret):
        self.sequence = 0
        self.socket, _, _, answer = handshake.opened(port, lease.encode(), bytes.fromhex(secret))
        assert struct.unpack_from('<I', answer, handshake.ACCEPTED_AT)[0], answer
        kind, _, status, body = self.receive()
        assert kind == wire_client.SNAPSHOT and status == 0, (kind, status)
        self.calls = self.names(body)


def main():
    if arguments[0] in ('worker', 'placed'):
        os.environ.update([SECRET.decode().split('=')])
    if arguments[0] == 'worker':
        for name, call, body in attacks():
            print(f'{name}: {attack(arguments[1], call, body)}', flush=True)
        return
    if arguments[0] == 'placed':
        for name, frames in (*placed_attacks(), *pool_attacks()):
            print(f'{name}: {attack_placed(arguments[1], frames)}', flush=True)
        for name, (call, body) in POOL_CALLS.items():
            print(f'pool: {name}: {attack_pool(arguments[1], call, body)}', flush=True)
        return
    w = Tenant(*arguments[1:4])
    own = wire_client.alive(w)
    if arguments[0] == 'lease':
        try:
            w.ask('cuMemcpy', struct.pack('<QQQ', own, own, 16), value=CONTEXT)
            print('carried out')
        except (EOFError, ConnectionError):
            print('closed')
    else:
        for _ in range(int(arguments[4])):
            assert (
                w.ask('cuMemcpy3DAsync_v2', box_3d(own, own + 1024) + I(STREAM), value=CONTEXT)[0]
                == 0
            )
        wait_for_stream(w)
        print('copied', flush=True)
        sys.stdin.read()


main()
