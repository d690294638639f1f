#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Large copies to the host that nobody waits for, and what other streams ask meanwhile: with a
client written from doc/protocol.md, that reads nothing while it sends. A copy is far larger than
what all buffers between the two hold, so it is not over before the client reads.

usage: beside.py WORKER CASE      prints "ok", or what is wrong. Cases: --list.
"""
import socket
import struct
import sys

import wire_client
from wire_client import DATA, WANTS_REPLY

LARGE = 80 << 20
CONTEXT, A, B, BLOCKING, EVENT = 100, 200, 201, 202, 300
NOT_READY = 600
CALLER_WAITS = 4
NON_BLOCKING = 1


class Client(wire_client.Worker):
    def __init__(self, path):
        super().__init__(path)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 256 << 10)
        self.large = self.small = 0
        self.need(self.ask('cuDevicePrimaryCtxRetain', struct.pack('<Ii', CONTEXT, 0)))
        self.large = self.alloc(LARGE)
        self.small = self.alloc(4096)
        for stream, flags in (A, NON_BLOCKING), (B, NON_BLOCKING), (BLOCKING, 0):
            self.post('cuStreamCreateWithPriority', struct.pack('<IIi', stream, flags, 0))
        self.post('cuEventCreate', struct.pack('<II', EVENT, 2))
        self.set(self.large, 1, LARGE, 0)
        self.set(self.small, 9, 4096, 0)
        self.need(self.ask('cuCtxSynchronize', value=CONTEXT))

    def read(self, n):
        data = memoryview(bytearray(n))
        at = 0
        while at < n:
            got = self.socket.recv_into(data[at:])
            if not got:
                raise EOFError
            at += got
        return bytes(data)

    @staticmethod
    def need(answer):
        assert answer[0] == 0, answer
        return answer[1]

    def alloc(self, size):
        return struct.unpack(
            '<Q', self.need(self.ask('cuMemAlloc_v2', struct.pack('<BQ', 1, size), value=CONTEXT))
        )[0]

    def post(self, name, body):
        self.send(self.number(name), body, flags=0, value=CONTEXT)

    def question(self, name, body=b'', waits=False):
        self.send(
            self.number(name),
            body,
            flags=WANTS_REPLY | (CALLER_WAITS if waits else 0),
            value=CONTEXT,
        )
        return self.sequence

    def set(self, address, byte, size, stream):
        self.post('cuMemsetD8Async', struct.pack('<QBQI', address, byte, size, stream))

    def copy(self, address, size, stream, waits=False):
        return self.question(
            'cuMemcpyDtoHAsync_v2', struct.pack('<QQI', address, size, stream), waits
        )

    def take(self, *wanted):
        """Reads until all of these are answered: the order of their ends, {sequence: result},
        {sequence: the bytes that were among its data}."""
        ends, results, seen, sizes = [], {}, {s: set() for s in wanted}, dict.fromkeys(wanted, 0)
        while set(ends) != set(wanted):
            size, kind, flags, sequence, value = wire_client.HEADER.unpack(
                self.read(wire_client.HEADER.size)
            )
            body = self.read(size)
            assert sequence in wanted or kind not in (wire_client.REPLY, DATA), (kind, sequence)
            if kind == 5:
                (self.token,) = struct.unpack('<Q', body)
            if sequence not in wanted:
                continue
            results[sequence] = value
            if kind == DATA:
                seen[sequence] |= set(body[:1]) if body.count(body[:1]) == size else set(body)
                sizes[sequence] += size
            if flags & 2:
                ends.append(sequence)
        for s in wanted:
            assert results[s] or not seen[s] or sizes[s] in (LARGE, 4), sizes
        return ends, results, seen


def apart(c, stream):
    copies = [c.copy(c.large, LARGE, A) for _ in range(2)]
    asked = [
        c.copy(c.small, 4, stream),
        c.question('cuStreamSynchronize', struct.pack('<I', stream)),
        c.question('cuMemGetInfo_v2', b'\1\1'),
    ]
    ends, results, seen = c.take(*copies, *asked)
    assert ends[-2:] == copies, ends
    assert all(seen[s] == {1} for s in copies) and seen[asked[0]] == {9}, seen
    assert not any(results.values()), results


def case_apart(c):
    "another stream's calls are answered before a large copy is over"
    apart(c, B)


def case_default(c):
    "... those of the default stream, too, where the copy's stream does not wait for it"
    apart(c, 0)


def case_waits(c):
    "who waits for the copy's stream, or the context, is answered behind it"
    copy = c.copy(c.large, LARGE, A)
    stream, context = c.question('cuStreamSynchronize', struct.pack('<I', A)), c.question(
        'cuCtxSynchronize'
    )
    small = c.copy(c.small, 4, B)
    ends, _, _ = c.take(copy, stream, context, small)
    assert ends[:2] == [small, copy] and set(ends[2:]) == {stream, context}, ends


def case_queries(c):
    "its stream is not idle before, an event behind it not reached"
    copy = c.copy(c.large, LARGE, A)
    c.post('cuEventRecord', struct.pack('<II', EVENT, A))
    stream, event = c.question('cuStreamQuery', struct.pack('<I', A)), c.question(
        'cuEventQuery', struct.pack('<I', EVENT)
    )
    wait, small = c.question('cuEventSynchronize', struct.pack('<I', EVENT)), c.copy(c.small, 4, B)
    ends, results, _ = c.take(copy, stream, event, wait, small)
    assert ends[3:] == [copy, wait], ends
    assert results[stream] == results[event] == NOT_READY and not results[wait], results
    assert c.need(c.ask('cuEventQuery', struct.pack('<I', EVENT), value=CONTEXT)) == b''


def case_behind(c):
    "what comes behind it in its stream does not change what it copies"
    copy = c.copy(c.large, LARGE, A)
    c.set(c.large, 2, LARGE, A)
    again = c.copy(c.large, LARGE, A)
    ends, _, seen = c.take(copy, again)
    assert ends == [copy, again] and seen == {copy: {1}, again: {2}}, (ends, seen)


def case_event(c):
    "... nor what waits for its event in another stream"
    copy = c.copy(c.large, LARGE, A)
    c.post('cuEventRecord', struct.pack('<II', EVENT, A))
    c.post('cuStreamWaitEvent', struct.pack('<III', B, EVENT, 0))
    c.set(c.large, 2, LARGE, B)
    again = c.copy(c.large, LARGE, B)
    _, _, seen = c.take(copy, again)
    assert seen == {copy: {1}, again: {2}}, seen


def case_implicit(c):
    "... nor what the default stream does, for which others wait"
    copy = c.copy(c.large, LARGE, BLOCKING)
    c.set(c.large, 2, LARGE, 0)
    again = c.copy(c.large, LARGE, BLOCKING)
    c.set(c.large, 3, LARGE, 0)
    _, _, seen = c.take(copy, again)
    assert seen == {copy: {1}, again: {2}}, seen


def case_waited(c):
    "who waits for a copy that comes behind others has their bytes first"
    large = c.copy(c.large, LARGE, BLOCKING)
    small = c.copy(c.small, 4, 0, waits=True)
    ends, _, _ = c.take(large, small)
    assert ends == [large, small], ends
    large = c.copy(c.large, LARGE, BLOCKING)
    after = c.copy(c.large, LARGE, 0, waits=True)
    ends, _, _ = c.take(large, after)
    assert ends == [large, after], ends


def case_several(c):
    "large copies of one stream come in their order, others' answers between them"
    copies = [c.copy(c.large, LARGE, A) for _ in range(3)]
    small = c.copy(c.small, 4, B)
    wait = c.question('cuStreamSynchronize', struct.pack('<I', A))
    ends, _, seen = c.take(*copies, small, wait)
    assert ends == [small, *copies, wait], ends
    assert all(seen[s] == {1} for s in copies), seen


def case_host_function(c):
    "behind a host function it waits for the client's word, and holds up nobody"
    c.post('cuLaunchHostFunc', struct.pack('<IIQ', 0, A, 77))
    copy, small = c.copy(c.large, LARGE, A), c.copy(c.small, 4, B)
    ends, _, _ = c.take(small)
    assert ends == [small]
    c.post('cuLaunchHostFunc', struct.pack('<IQ', 1, 77))
    _, _, seen = c.take(copy)
    assert c.token == 77 and seen[copy] == {1}, seen


def case_wrong(c):
    "one that the driver refuses is answered with its error"
    copy, small = c.copy(c.large, LARGE * 4, A), c.copy(c.small, 4, B)
    ends, results, _ = c.take(copy, small)
    assert sorted(ends) == sorted([small, copy]) and results[copy] and not results[small], (
        ends,
        results,
    )
    case_apart(c)


def case_cut(c):
    "the connection's end in the middle of it is the worker's"
    c.copy(c.large, LARGE, A)
    c.question('cuStreamSynchronize', struct.pack('<I', A))
    c.read(8 << 20)
    c.close()
    status, err = c.end()
    assert status == 0, (status, err)


CASES = {name[5:]: f for name, f in globals().items() if name.startswith('case_')}

if sys.argv[1:] == ['--list']:
    for name, f in CASES.items():
        print(name, ' '.join(f.__doc__.split()), sep='\t')
else:
    CASES[sys.argv[2]](Client(sys.argv[1]))
    print('ok')
