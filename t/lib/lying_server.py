# SPDX-License-Identifier: Apache-2.0
"""Stands between a program and rgpud's data port, and makes the server lie to the program.

lying_server.py LEASE_FILE OUT_FILE SNAPSHOT_HEX LIE_FILE

Listens on a port of its own and writes OUT_FILE, a lease file that leads there. SNAPSHOT_HEX is a
worker's snapshot (fuzz.py snapshot), which names the calls. Each connection begins by reading
LIE_FILE: the lie's name and its arguments, see LIES. The program is to go through TCP, unpacked,
over one connection.
"""
import random
import socket
import struct
import sys
import threading

from data_proxy import HEADER, end_both, listen_for
from handshake import read

HELLO, ANSWER, VERDICT = (
    40,
    216,
    192,
)  # bytes: the server's hello, the client's, the server's verdict
REPLY, DATA = 1, 2
LAST = 2
PLACED = 0xFFEE  # a call that is none of the table's: memory at addresses of the client's choice
FUNCTION = b'\3\0\0\0add' + struct.pack(
    '<Q', 2
)  # of the program's kernel, and how many parameters it has
NASTY = [
    0,
    1,
    7,
    0x7F,
    0xFF,
    0x1000,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    1 << 40,
    1 << 47,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
]


def call_names(snapshot):
    at = snapshot.index(struct.pack('<I', len('cuGetErrorString')) + b'cuGetErrorString') - 8
    (count,) = struct.unpack_from('<Q', snapshot, at)
    names, p = [], at + 8
    for _ in range(count):
        (n,) = struct.unpack_from('<I', snapshot, p)
        names.append(snapshot[p + 4 : p + 4 + n].decode())
        p += 4 + n
    return names


class Frame:
    def __init__(self, kind, flags, sequence, value, body):
        self.kind, self.flags, self.sequence, self.value, self.body = (
            kind,
            flags,
            sequence,
            value,
            body,
        )

    def bytes(self):
        return (
            HEADER.pack(len(self.body), self.kind, self.flags, self.sequence, self.value)
            + self.body
        )


class Honest:
    """What a lie starts from: frames as they came. `call`: (name, body) of the call that a frame
    answers."""

    ends = False  # the connection is closed behind it

    def snapshot(self, body):
        return body

    def frames(self, frame, call):
        return [frame]


class OfCall(Honest):
    """Another answer to one call."""

    name = ''

    def frames(self, frame, call):
        if call[0].startswith(self.name) and frame.kind in (REPLY, DATA):
            return self.answer(frame, call[1])
        return [frame]


class CopyWithoutBytes(OfCall):
    name = 'cuMemcpyDtoH'

    def answer(self, frame, body):
        return [Frame(REPLY, LAST, frame.sequence, 0, b'')] if frame.flags & LAST else []


class CopyTooLong(OfCall):
    name = 'cuMemcpyDtoH'

    def answer(self, frame, body):
        if frame.flags & LAST:
            frame.body += b'x' * 5000
        return [frame]


class CopyTooShort(OfCall):
    name = 'cuMemcpyDtoH'

    def answer(self, frame, body):
        return [Frame(DATA, LAST, frame.sequence, 0, frame.body[:-1])]


class BytesForACall(OfCall):
    name = 'cuCtxSynchronize'

    def answer(self, frame, body):
        return [Frame(DATA, LAST, frame.sequence, 0, b'')]


class Address(OfCall):
    """The server reserves there what both sides share; `same`: where it did before."""

    name = 'cuMemAllocManaged'
    first = None

    def __init__(self, where):
        self.where = where

    def answer(self, frame, body):
        if struct.unpack_from('<I', body)[0] != 0 or len(frame.body) != 8:
            return [frame]
        if self.where == 'same':
            self.first = self.first or frame.body
            frame.body = self.first
        else:
            frame.body = struct.pack('<Q', int(self.where, 16))
        return [frame]


class Part(OfCall):
    """The part of the band that the server leaves to the client begins there."""

    name = 'placed'

    def __init__(self, begin):
        self.begin = struct.pack('<Q', int(begin, 16))

    def answer(self, frame, body):
        if frame.body:
            frame.body = self.begin + frame.body[8:]
        return [frame]


class Parameters(OfCall):
    """What the kernel's parameters are: (offset, bytes) of the second; or how many there are."""

    name = 'cu'

    def __init__(self, offset, size, count='2'):
        self.pair, self.count = struct.pack('<II', int(offset, 0), int(size, 0)), int(count, 0)

    def answer(self, frame, body):
        at = frame.body.find(FUNCTION)
        if at >= 0:
            pairs = at + len(FUNCTION)
            frame.body = (
                frame.body[: pairs - 8]
                + struct.pack('<Q', self.count)
                + frame.body[pairs : pairs + 8]
                + self.pair
                + frame.body[pairs + 16 :]
            )
        return [frame]


class GraphNodes(OfCall):
    """So many nodes has a graph."""

    name = 'cuGraphGetNodes'

    def __init__(self, count):
        self.count = int(count, 0)

    def answer(self, frame, body):
        frame.body = frame.body[:-8] + struct.pack('<Q', self.count)
        return [frame]


class GraphInItself(Honest):
    """Each node is a graph, which is the one that it is in."""

    graph = b''

    def frames(self, frame, call):
        name, body = call
        if name == 'cuGraphGetNodes':
            self.graph = body[:4]
        if name == 'cuGraphNodeGetType':
            frame.value, frame.body = 0, struct.pack('<I', 4)
        if name == 'cuGraphChildGraphNodeGetGraph':
            frame.value, frame.body = 0, self.graph
        return [frame]


class Empty(Honest):
    """Success, and nothing else, to every call."""

    def frames(self, frame, call):
        if frame.kind == REPLY and not frame.value:
            frame.body = b''
        return [frame]


class Long(Honest):
    """More than was asked, to every call."""

    def frames(self, frame, call):
        if frame.kind == REPLY:
            frame.body += b'\1' * 100
        return [frame]


class DeviceRange(Honest):
    """Where the server's memory lies."""

    def __init__(self, base, size):
        self.range = struct.pack('<QQ', int(base, 0), int(size, 0))

    def snapshot(self, body):
        at = 4 + struct.unpack_from('<I', body)[0] + 8
        return body[:at] + self.range + body[at + 16 :]


class Random(Honest):
    """Anything: answers with other bytes, of other lengths, for other calls, twice, of other
    kinds."""

    made = 0

    def __init__(self, seed):
        self.dice = random.Random(int(seed) * 1000 + Random.made)
        Random.made += 1
        self.rate = self.dice.choice([3, 10, 40])

    def changed(self, body):
        body, dice = bytearray(body), self.dice
        for _ in range(dice.randint(1, 4)):
            at, kind = dice.randint(0, len(body)), dice.randint(0, 5)
            size = dice.choice([1, 4, 8])
            if kind < 3 and len(body) >= size:
                at = (
                    min(at, len(body) - size) // size * size
                    if dice.randint(0, 1)
                    else min(at, len(body) - size)
                )
                body[at : at + size] = (dice.choice(NASTY) & ((1 << 8 * size) - 1)).to_bytes(
                    size, 'little'
                )
            elif kind == 3:
                del body[at : at + dice.choice([1, 4, 8, 100])]
            elif kind == 4:
                body[at:at] = dice.randbytes(dice.choice([1, 4, 8, 100]))
            elif body:
                body[at % len(body)] ^= 1 << dice.randint(0, 7)
        return bytes(body)

    def snapshot(self, body):
        # Half of the snapshot is the names of calls: few of what is before them is changed so.
        return self.changed(body) if self.dice.randint(0, 20) == 0 else body

    def frames(self, frame, call):
        dice = self.dice
        if dice.randint(0, self.rate):
            return [frame]
        kind = dice.randint(0, 59)
        if kind < 50:
            frame.body = self.changed(frame.body)
        elif kind < 55:
            frame.value = dice.choice([0, 1, 2, 600, 700, 999, 0xFFFFFFFF])
        elif kind == 55:
            frame.flags ^= dice.choice([1, 2, 4, 0x8000])
        elif kind == 56:
            frame.sequence += dice.choice([-1, 1, 100])
            frame.sequence &= 0xFFFFFFFF
        elif kind == 57:
            frame.kind = dice.randint(0, 8)
        else:
            return [frame, frame]
        if kind in (55, 56, 57):
            self.ends = True  # else the program would wait for the answer
        return [frame]


LIES = {
    'honest': Honest,
    'copy-without-bytes': CopyWithoutBytes,
    'copy-too-long': CopyTooLong,
    'copy-too-short': CopyTooShort,
    'bytes-for-a-call': BytesForACall,
    'address': Address,
    'parameters': Parameters,
    'part': Part,
    'graph-nodes': GraphNodes,
    'graph-in-itself': GraphInItself,
    'empty': Empty,
    'long': Long,
    'device-range': DeviceRange,
    'random': Random,
}


def serve(client, address, names, lie_file):
    with open(lie_file) as f:
        lie, *arguments = f.read().split()
    lie = LIES[lie](*arguments)
    server = socket.create_connection(address)
    for end in (client, server):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client.sendall(read(server, HELLO))
    server.sendall(read(client, ANSWER))
    client.sendall(read(server, VERDICT))
    calls = {}

    def down():
        first = True
        try:
            while True:
                size, kind, flags, sequence, value = HEADER.unpack(read(server, HEADER.size))
                body = read(server, size)
                if first:
                    body, first = lie.snapshot(body), False
                    client.sendall(HEADER.pack(len(body), kind, flags, sequence, value) + body)
                    continue
                frames = lie.frames(
                    Frame(kind, flags, sequence, value, body), calls.get(sequence, ('', b''))
                )
                client.sendall(b''.join(f.bytes() for f in frames))
                if lie.ends:
                    raise EOFError
        except (EOFError, OSError):
            end_both(client, server)

    threading.Thread(target=down, daemon=True).start()
    try:
        while True:
            head = read(client, HEADER.size)
            size, kind, flags, sequence, value = HEADER.unpack(head)
            body = read(client, size)
            name = names[kind] if kind < len(names) else 'placed' if kind == PLACED else ''
            calls[sequence] = (name, body[:64])
            server.sendall(head + body)
    except (EOFError, OSError):
        end_both(client, server)


def main():
    lease_file, out, snapshot, lie_file = sys.argv[1:]
    names = call_names(bytes.fromhex(snapshot))
    listener, server = listen_for(lease_file, out)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(client, server, names, lie_file), daemon=True).start()


main()
