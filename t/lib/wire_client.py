#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client of rgpu-worker written from doc/protocol.md alone, to send what no client may.

usage: wire_client.py WORKER CASE [SEED]

Starts WORKER with one end of a TCP connection as descriptor 3, reads the snapshot, does what CASE
says, and prints one line: the worker's exit status and what it wrote to standard error. Cases:
--list.
"""
import fcntl
import mmap
import os
import random
import select
import socket
import struct
import subprocess
import sys
import threading

HEADER = struct.Struct('<IHHII')  # bytes, type, flags, sequence, value
REPLY, DATA, TEXT, SNAPSHOT = 1, 2, 3, 4
WANTS_REPLY = 1
LIMIT = 30  # seconds for anything


NUMBER = 0x0123456789ABCDEF


class Worker:
    def __init__(self, path):
        with socket.create_server(('127.0.0.1', 0)) as listening:
            mine = socket.create_connection(listening.getsockname())
            theirs, _ = listening.accept()
        for end in mine, theirs:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        environment = dict(
            os.environ, RGPU_WORKER_LEASE='0123456789abcdef', RGPU_WORKER_NUMBER=f'{NUMBER:016x}'
        )
        # rgpud comes to it here: an abstract socket, as a path would be left over.
        self.control = b'\0rgpu-test-' + os.urandom(8).hex().encode()
        with socket.socket(socket.AF_UNIX) as control:
            control.bind(self.control)
            # Descriptor 3 must be the socket and 4 the control socket, whatever numbers they have
            # here.
            given = [
                fcntl.fcntl(end.fileno(), fcntl.F_DUPFD_CLOEXEC, 20) for end in (theirs, control)
            ]
            self.process = subprocess.Popen(
                [
                    'bash',
                    '-c',
                    f'exec 3<&{given[0]} 4<&{given[1]} {given[0]}<&- {given[1]}<&-; exec "$0"',
                    path,
                ],
                pass_fds=given,
                stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env=environment,
            )
            for fd in given:
                os.close(fd)
        theirs.close()
        self.socket = mine
        self.socket.settimeout(LIMIT)
        self.sequence = 0
        kind, _, status, body = self.receive()
        assert kind == SNAPSHOT and status == 0, (kind, status)
        self.calls = self.names(body)

    def read(self, n, source=None):
        data = b''
        while len(data) < n:
            more = (source or self.socket).recv(n - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def receive(self):
        n, kind, _, sequence, value = HEADER.unpack(self.read(HEADER.size))
        return kind, sequence, value, self.read(n)

    @staticmethod
    def names(body):
        """The call names, near the snapshot's end: u64 count, then u32 length and bytes each."""
        at = body.index(b'cuGetErrorString') - 4
        names = []
        for _ in range(struct.unpack_from('<Q', body, at - 8)[0]):
            (n,) = struct.unpack_from('<I', body, at)
            names.append(body[at + 4 : at + 4 + n].decode())
            at += 4 + n
        return names

    def number(self, name):
        return self.calls.index(name)

    def send(self, kind, body=b'', flags=WANTS_REPLY, value=0, announce=None):
        self.sequence += 1
        header = HEADER.pack(
            len(body) if announce is None else announce, kind, flags, self.sequence, value
        )
        self.socket.sendall(header + body)

    def ask(self, name, body=b'', value=0):
        self.send(self.number(name), body, value=value)
        while True:
            kind, sequence, result, answer = self.receive()
            if sequence == self.sequence:
                return result, answer

    def close(self):
        self.socket.close()

    def end(self):
        """(exit status, standard error) after the worker has ended by itself."""
        _, err = self.process.communicate(timeout=LIMIT)
        return self.process.returncode, err.decode()


def alive(w):
    """The worker carries out calls: memory of device 0's primary context."""
    result, _ = w.ask('cuDevicePrimaryCtxRetain', struct.pack('<Ii', 100, 0))
    assert result == 0, result
    result, answer = w.ask('cuMemAlloc_v2', struct.pack('<BQ', 1, 4096), value=100)
    assert result == 0 and len(answer) == 8, (result, answer)
    return struct.unpack('<Q', answer)[0]


def case_good(w):
    "calls are carried out, and the end of the connection is the worker's end"
    address = alive(w)
    result, _ = w.ask('cuMemFree_v2', struct.pack('<Q', address), value=100)
    assert result == 0
    w.close()


def case_truncated_header(w):
    "the connection ends inside a header"
    w.socket.sendall(b'\x01\x02\x03')
    w.close()


def case_truncated_frame(w):
    "the connection ends inside a body"
    w.send(w.number('cuMemAlloc_v2'), b'\x01', announce=9)
    w.close()


def case_oversize(w):
    "a body of 4 GiB is announced"
    w.send(w.number('cuMemAlloc_v2'), b'', announce=0xFFFFFFFF)


def case_oversize_copy(w):
    "a chunk larger than chunks are"
    w.send(w.number('cuMemcpyHtoDAsync_v2'), b'', announce=(1 << 20) + 1)


def case_unknown_call(w):
    "a call number past the table"
    w.send(60000)


def case_not_sendable(w):
    "a call that clients answer themselves"
    w.send(w.number('cuInit'), struct.pack('<I', 0))


def case_short_body(w):
    "a body with one byte too few"
    w.send(w.number('cuMemAlloc_v2'), struct.pack('<BQ', 1, 4096)[:-1])


def case_long_body(w):
    "a body with one byte too many"
    w.send(w.number('cuMemAlloc_v2'), struct.pack('<BQ', 1, 4096) + b'x')


def case_lying_copy(w):
    "a chunk that says it is longer than its frame"
    w.send(w.number('cuMemcpyHtoDAsync_v2'), struct.pack('<QQI', 0, 100, 0) + b'x' * 50)


def case_many_parts(w):
    "a module image of more parts than there are bytes"
    w.send(w.number('cuModuleLoadDataEx'), struct.pack('<IBI', 200, 0, 4000) + b'\xff' * 64)


def load_by_digest(w, size, rest=b'', form=1):
    """A load of one part that is named by the digest in RGPU_TEST_DIGEST; (CUresult, first byte of
    the answer)."""
    alive(w)
    body = (
        struct.pack('<IBIQI', 200, 0, 1, size, 0)
        + bytes([form])
        + bytes.fromhex(os.environ['RGPU_TEST_DIGEST'])
        + rest
    )
    result, answer = w.ask('cuModuleLoadDataEx', body, value=100)
    return result, answer[0]


def case_image_digest(w):
    "a module image named by its digest"
    print(
        {(0, 0): 'loaded', (500, 2): 'missing'}[
            load_by_digest(w, int(os.environ['RGPU_TEST_BYTES']))
        ],
        file=sys.stderr,
    )
    w.close()


def case_image_lies(w):
    "... whose parts are longer than it is"
    load_by_digest(w, int(os.environ['RGPU_TEST_BYTES']) + 1)


def case_image_long_digest(w):
    "... by a digest that is too long"
    load_by_digest(w, int(os.environ['RGPU_TEST_BYTES']), b'x')


def case_image_form(w):
    "an image that is neither its bytes nor its digest"
    load_by_digest(w, int(os.environ['RGPU_TEST_BYTES']), form=2)


def case_bad_handles(w):
    "numbers that are no handles are errors, no crash: the worker goes on"
    context = struct.pack('<I', 101)
    for number in (3, 15, 101, 5000, 0x7FFFFFFF, 0xFFFFFFFF):
        result, _ = w.ask('cuStreamSynchronize', struct.pack('<I', number))
        assert result in (400, 201), (number, result)
        result, _ = w.ask('cuCtxGetLimit', struct.pack('<BI', 1, 0), value=number)
        assert result == 709, (
            number,
            result,
        )  # a client gives contexts' numbers once: this one's has ended
        head = struct.pack('<11I', number, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0) + struct.pack('<I', 0)
        result, _ = w.ask('cuLaunchKernel', head)
        assert result in (400, 201), (number, result)
    alive(w)
    result, _ = w.ask('cuStreamDestroy_v2', context, value=100)
    assert result == 400, result
    w.close()


def case_huge_handle(w):
    "a client that numbers its objects outside the table: refused, no memory reserved"
    alive(w)
    result, _ = w.ask('cuEventCreate', struct.pack('<II', 0xFFFFFFF0, 0), value=100)
    assert result == 1, result
    w.close()


RESERVE, BACK, RELEASE, PUSH, PULL, BACK_MAPPED = range(6)


def shared_memory(w):
    """Two MiB of shared memory with device memory behind it; its address."""
    alive(w)
    result, answer = w.ask('cuMemAllocManaged', struct.pack('<IQQ', RESERVE, 0, 2 << 20), value=100)
    assert result == 0 and len(answer) == 8, (result, answer)
    address = struct.unpack('<Q', answer)[0]
    result, _ = w.ask('cuMemAllocManaged', struct.pack('<IQ', BACK, address), value=100)
    assert result == 0, result
    return address


def push(w, address, size, diff):
    return w.ask(
        'cuMemAllocManaged', struct.pack('<IQQB', PUSH, address, size, 0) + diff, value=100
    )[0]


def pull(w, *ranges):
    body = struct.pack('<IQ', PULL, len(ranges)) + b''.join(struct.pack('<QQ', *r) for r in ranges)
    return w.ask('cuMemAllocManaged', body, value=100)


def case_shared(w):
    """shared memory: what is pushed is there, what the device changed comes back, ranges outside
    are errors"""
    address = shared_memory(w)
    assert push(w, address, 100, struct.pack('<IIQ', 1, 1, 0b101) + b'ab') == 0
    assert pull(w, (address, 4096)) == (0, b''), 'nobody changed anything'
    result, _ = w.ask('cuMemsetD8Async', struct.pack('<QBQI', address + 200, 7, 3, 0), value=100)
    assert result == 0, result
    result, _ = w.ask('cuStreamSynchronize', struct.pack('<I', 0), value=100)
    assert result == 0, result
    entry = struct.pack('<IIQ', 3, 1, 0b111 << 8) + bytes([7] * 3)
    assert pull(w, (address, 4096)) == (0, struct.pack('<QII', address, 4096, len(entry)) + entry)
    for start, size in (
        (0, 64),
        (address - 64, 64),
        (address, (2 << 20) + 1),
        (address + (2 << 20), 1),
        (1 << 63, 1 << 63),
    ):
        assert push(w, start, size, b'') == 1, (start, size)
        if size < 16 << 20:
            assert pull(w, (start, size))[0] == 1, (start, size)
    result, _ = w.ask('cuMemAllocManaged', struct.pack('<IQ', BACK, address), value=100)
    assert result == 1, 'a second time'
    result, _ = w.ask('cuMemAllocManaged', struct.pack('<IQ', RELEASE, address), value=0)
    assert result == 0, result
    assert push(w, address, 64, b'') == 1
    for size in (0, 4096, (1 << 64) - (2 << 20)):
        result, _ = w.ask('cuMemAllocManaged', struct.pack('<IQQ', RESERVE, 0, size), value=100)
        assert result != 0, size
    alive(w)
    w.close()


def case_back_mapped(w):
    """device memory at addresses that the program reserved, and nowhere else"""
    alive(w)
    granule = 2 << 20

    def back(address, size):
        body = struct.pack('<IQQ', BACK_MAPPED, address, size)
        return w.ask('cuMemAllocManaged', body, value=100)[0]

    body = struct.pack('<BQQQQ', 1, 2 * granule, 0, 0, 0)
    result, answer = w.ask('cuMemAddressReserve', body, value=100)
    assert result == 0 and len(answer) == 8, (result, answer)
    address = struct.unpack('<Q', answer)[0]
    for start, size in (
        (0, granule),
        (address - granule, granule),
        (address, 3 * granule),
        (address, 0),
        (address, 4096),
        (address, (1 << 64) - granule),
        (shared_memory(w), granule),
    ):
        assert back(start, size) == 1, (start, size)
    assert back(address, granule) == 0
    assert back(address, granule) == 1 and back(address, 2 * granule) == 1, 'it is there'
    assert push(w, address, 64, struct.pack('<IIQ', 0, 1, 1) + b'a') == 0
    assert push(w, address + granule, 64, b'') == 1
    release = struct.pack('<IQ', RELEASE, address)
    assert w.ask('cuMemAllocManaged', release, value=0)[0] == 0
    assert push(w, address, 64, b'') == 1
    assert back(address, 2 * granule) == 0, 'the addresses are still reserved'
    # It unmaps behind our back: nothing is written there any more.
    assert w.ask('cuMemUnmap', struct.pack('<QQ', address, 2 * granule), value=100)[0] == 0
    assert push(w, address, 64, struct.pack('<IIQ', 0, 1, 1) + b'a') == 1
    alive(w)
    w.close()


def case_damaged_diff(w):
    "a diff that names bytes outside its range"
    body = (
        struct.pack('<IQQB', PUSH, shared_memory(w), 100, 0)
        + struct.pack('<IIQ', 1, 1, 1 << 40)
        + b'a'
    )
    w.send(w.number('cuMemAllocManaged'), body, value=100)


def case_large_pull(w):
    "a pull of more than an answer can hold"
    body = struct.pack('<IQQQ', PULL, 1, shared_memory(w), (16 << 20) + 1)
    w.send(w.number('cuMemAllocManaged'), body, value=100)


# --- doc/protocol.md, "Packed frames"

PACKING, PART = 0xFFF4, 0xFFF5
LAST, STORED, LZ4 = 2, 0, 1


def told(w, methods=2, wish=0, flags=WANTS_REPLY):
    w.send(PACKING, struct.pack('<IIQ', methods, wish, 0), flags=flags)


def agree(w, **wishes):
    told(w, **wishes)
    kind, sequence, result, answer = w.receive()
    assert (kind, sequence, result) == (REPLY, w.sequence, 0) and struct.unpack('<I', answer) == (
        2,
    ), (kind, result, answer)


def lz4_of(n):
    """LZ4's block of n times 'A': a literal, a match of all but the last five, these."""
    match = n - 6 - 19
    return b'\x1fA\x01\x00' + b'\xff' * (match // 255) + bytes([match % 255]) + b'\x50AAAAA'


def send_part(w, method, data, becomes, last=False):
    w.socket.sendall(HEADER.pack(len(data), PART, LAST if last else 0, method, becomes) + data)


def copy_head(w, address, n):
    """What is in front of a chunk's n bytes, as a part that is not packed."""
    w.sequence += 1
    fixed = struct.pack('<QQI', address, n, 0)
    head = (
        HEADER.pack(len(fixed) + n, w.number('cuMemcpyHtoDAsync_v2'), WANTS_REPLY, w.sequence, 100)
        + fixed
    )
    send_part(w, STORED, head, len(head))


def case_packed(w):
    "a client that packs; what it asks for comes packed where it wants that"
    n = 300000
    told(w, methods=0, flags=0)
    agree(w)
    alive(w)
    result, answer = w.ask('cuMemAlloc_v2', struct.pack('<BQ', 1, n), value=100)
    (address,) = struct.unpack('<Q', answer)
    copy_head(w, address, n)
    send_part(w, LZ4, lz4_of(262144), 262144)
    send_part(w, LZ4, lz4_of(n - 262144), n - 262144, last=True)
    assert w.receive()[:3] == (REPLY, w.sequence, 0)
    w.send(w.number('cuMemcpyDtoHAsync_v2'), struct.pack('<QQI', address, n, 0), value=100)
    kind, sequence, result, answer = w.receive()
    assert (kind, sequence, result) == (DATA, w.sequence, 0) and answer == b'A' * n
    agree(w, wish=2)
    w.send(w.number('cuMemcpyDtoHAsync_v2'), struct.pack('<QQI', address, n, 0), value=100)
    became, flags = 0, 0
    while not flags & LAST:
        size, kind, flags, method, becomes = HEADER.unpack(w.read(HEADER.size))
        data = w.read(size)
        assert (
            kind == 6
            and 0 < becomes <= 262144
            and (size < becomes if method == LZ4 else method == STORED and size == becomes)
        )
        if not became:
            assert HEADER.unpack(data[:16])[:3] == (n, DATA, LAST), data[:16]
        became += becomes
    assert became == HEADER.size + n, became
    w.close()


def case_packed_unasked(w):
    "a part from a client that has said nothing of packing"
    send_part(
        w, STORED, HEADER.pack(0, w.number('cuCtxSynchronize'), WANTS_REPLY, 1, 0), 16, last=True
    )


def case_packed_greeted(w):
    "... that has named no method"
    told(w, methods=0, flags=0)
    case_packed_unasked(w)


def case_packed_lies(w):
    "a part that becomes less than it says"
    agree(w)
    address = alive(w)
    copy_head(w, address, 4096)
    send_part(w, LZ4, lz4_of(4095), 4096, last=True)


def case_packed_more(w):
    "... and more"
    agree(w)
    address = alive(w)
    copy_head(w, address, 4096)
    send_part(w, LZ4, lz4_of(100000), 4096, last=True)


def case_packed_long(w):
    "a part that is too long"
    agree(w)
    send_part(w, LZ4, lz4_of(262145), 262145, last=True)


def case_packed_no_less(w):
    "a packed part that is longer than what it becomes"
    agree(w)
    send_part(w, LZ4, b'\x10A', 1, last=True)


def case_packed_short(w):
    "a frame that goes on behind its parts"
    agree(w)
    address = alive(w)
    copy_head(w, address, 4096)
    send_part(w, LZ4, lz4_of(4000), 4000, last=True)


def case_packed_rest(w):
    "parts that go on behind their frame"
    agree(w)
    send_part(
        w,
        STORED,
        HEADER.pack(0, w.number('cuCtxSynchronize'), WANTS_REPLY, 1, 0) * 2,
        32,
        last=True,
    )


def case_packed_twice(w):
    "a part in a part"
    agree(w)
    inner = HEADER.pack(16, PART, LAST, STORED, 16) + HEADER.pack(
        0, w.number('cuCtxSynchronize'), WANTS_REPLY, 1, 0
    )
    send_part(w, STORED, inner, len(inner), last=True)


def case_packed_other(w):
    "a method that was not agreed on"
    agree(w)
    send_part(w, 2, b'x' * 10, 100, last=True)


def case_packing_wish(w):
    "a wish that none has"
    told(w, wish=3)


# --- doc/protocol.md, "Lanes"

BAND = 0xFFEF


def case_band(w):
    "memory lies in the band that a client has named"
    w.send(BAND, struct.pack('<I', 3), flags=0)
    assert alive(w) >> 40 == 0x5B, hex(alive(w))
    w.close()


def case_band_far(w):
    "a band beyond the last"
    w.send(BAND, struct.pack('<I', 32), flags=0)


def case_band_late(w):
    "... when memory lies in another"
    alive(w)
    w.send(BAND, struct.pack('<I', 1), flags=0)


def case_band_short(w):
    "a band that is no number"
    w.send(BAND, b'xx', flags=0)


LANES = 0xFFF6
RECORD = struct.Struct('<II')  # bytes, 0 or the lane's place and one


def told_lanes(w, lanes, always=1, flags=WANTS_REPLY):
    w.send(LANES, struct.pack('<II', lanes, always), flags=flags)


def begin_lanes(w, n, always=1):
    """As rgpud gives them; our ends."""
    told_lanes(w, 0)
    assert w.receive() == (REPLY, w.sequence, 0, struct.pack('<Q', NUMBER))
    lanes = []
    for i in range(n):
        mine, theirs = socket.socketpair()
        mine.settimeout(LIMIT)
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(LIMIT)
            control.connect(w.control)
            socket.send_fds(control, [bytes(8)], [theirs.fileno()])
            theirs.close()
            assert mine.recv(4, socket.MSG_WAITALL) == struct.pack('<I', i)
        lanes.append(mine)
    told_lanes(w, n, always)
    assert w.receive() == (REPLY, w.sequence, 0, b'')
    return lanes


class Records:
    """What the worker sends in records, one stream again."""

    def __init__(self, w, lanes):
        self.w, self.lanes, self.there, self.used = w, lanes, b'', set()

    def read(self, n):
        while len(self.there) < n:
            size, way = RECORD.unpack(self.w.read(RECORD.size))
            assert size, way
            self.used.add(way)
            self.there += self.w.read(size, self.lanes[way - 1] if way else None)
        data, self.there = self.there[:n], self.there[n:]
        return data

    def frame(self):
        n, kind, flags, sequence, value = HEADER.unpack(self.read(HEADER.size))
        return kind, flags, sequence, value, self.read(n)

    def answer(self):
        kind, _, sequence, value, body = self.frame()
        assert kind == REPLY, kind
        return sequence, value, body


def frame_of(w, kind, body=b'', value=0):
    w.sequence += 1
    return HEADER.pack(len(body), kind, WANTS_REPLY, w.sequence, value) + body


def put(w, data, way=0, lanes=()):
    w.socket.sendall(RECORD.pack(len(data), way) + (b'' if way else data))
    if way:
        lanes[way - 1].sendall(data)


def case_lanes(w):
    "a client with lanes: a frame in pieces, over all of them, and its bytes back"
    n = 900000
    address = alive(w)
    result, answer = w.ask('cuMemAlloc_v2', struct.pack('<BQ', 1, n), value=100)
    (address,) = struct.unpack('<Q', answer)
    lanes = begin_lanes(w, 3)
    records = Records(w, lanes)
    data = random.Random(1).randbytes(n)
    frame = frame_of(
        w, w.number('cuMemcpyHtoDAsync_v2'), struct.pack('<QQI', address, n, 0) + data, value=100
    )
    cuts = [0, 7, 16, 40, 41, 100000, 100001, 500000, 880000, len(frame)]
    # The last first: what comes early waits.
    pieces = list(zip(cuts, cuts[1:]))
    w.socket.sendall(b''.join(RECORD.pack(b - a, 1 + i % 3) for i, (a, b) in enumerate(pieces)))
    for lane in reversed(range(3)):
        threading.Thread(
            target=lanes[lane].sendall,
            args=(b''.join(frame[a:b] for i, (a, b) in enumerate(pieces) if i % 3 == lane),),
        ).start()
    assert records.answer()[:2] == (w.sequence, 0)
    put(
        w,
        frame_of(
            w, w.number('cuMemcpyDtoHAsync_v2'), struct.pack('<QQI', address, n, 0), value=100
        ),
    )
    came, flags = b'', 0
    while not flags & LAST:
        kind, flags, sequence, result, body = records.frame()
        assert (kind, sequence, result) == (DATA, w.sequence, 0)
        came += body
    assert came == data
    assert records.used == {0, 1, 2, 3}, records.used
    w.close()


def case_lanes_none(w):
    "lanes that nobody has given"
    told_lanes(w, 1)


def case_lanes_many(w):
    "... more than a connection may have"
    told_lanes(w, 17)


def case_lanes_posted(w):
    "... without a reply"
    told_lanes(w, 0, flags=0)


def case_lanes_twice(w):
    "lanes that have begun"
    begin_lanes(w, 1)
    put(w, frame_of(w, LANES, struct.pack('<II', 1, 1)))


def case_lanes_zero(w):
    "a record of no bytes"
    begin_lanes(w, 2)
    w.socket.sendall(RECORD.pack(0, 1))


def case_lanes_other(w):
    "a record on a lane that there is not"
    begin_lanes(w, 2)
    w.socket.sendall(RECORD.pack(10, 3))


def case_lanes_cut(w):
    "a lane that ends before its record does"
    lanes = begin_lanes(w, 2)
    frame = frame_of(w, w.number('cuCtxSynchronize'))
    put(w, frame[:5])
    w.socket.sendall(RECORD.pack(len(frame) - 5, 2))
    lanes[1].sendall(frame[5:9])
    lanes[1].close()


def case_lanes_scribble(w):
    """anything at all, in records and on lanes, until the worker has enough of it or waits for what
    does not come"""
    lanes = begin_lanes(w, 3)
    for end in [w.socket] + lanes:
        end.settimeout(1)
    try:
        for _ in range(200):
            size, way = random.choice([1, 8, 16, 100, 5000, random.getrandbits(32)]), random.choice(
                [0, 1, 2, 3, 3, random.getrandbits(random.choice([2, 32]))]
            )
            w.socket.sendall(RECORD.pack(size, way))
            (lanes[way - 1] if 0 < way <= 3 else w.socket).sendall(
                random.randbytes(min(size, 20000))
            )
    except (BrokenPipeError, ConnectionResetError, TimeoutError):
        pass
    for end in [w.socket] + lanes:
        end.close()


# --- memory that both sides share: doc/protocol.md, "Through shared memory"

OFFER = 0xFFF1
RING, PLACES, PLACE = 256 << 10, 16, 256 << 10
HEAD, TAIL, RETURNED, RECEIVER_SLEEPS, SENDER_SLEEPS, BYTES = 0, 64, 128, 192, 256, 4096
DIRECTION = BYTES + RING + PLACES * PLACE


def offer_of(w, port=None):
    """An offer as a client makes it; the listening socket, and its body."""
    host, own = w.socket.getsockname()
    name, word, answer = os.urandom(16), os.urandom(32), os.urandom(32)
    listening = socket.socket(socket.AF_UNIX)
    listening.settimeout(LIMIT)
    listening.bind(b'\0rgpu-' + name.hex().encode())
    listening.listen()
    body = (
        struct.pack('<HH', 4, port or own)
        + socket.inet_aton(host).ljust(16, b'\0')
        + name
        + word
        + answer
    )
    return listening, word, answer, body


def send_offer(w, body, sequence=0, flags=WANTS_REPLY):
    w.socket.sendall(HEADER.pack(len(body), OFFER, flags, sequence, 0) + body)


class Shared:
    """The client's end: two rings in a memory file, and two sockets."""

    def __init__(self, w, seals=0b111, size=2 * DIRECTION, descriptors=2, answer=None):
        self.worker = w
        listening, word, right, body = offer_of(w)
        send_offer(w, body)
        self.bell, _ = listening.accept()
        self.bell.settimeout(LIMIT)
        assert self.bell.recv(32, socket.MSG_WAITALL) == word
        memory = os.memfd_create('test', os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(memory, size)
        if seals:
            fcntl.fcntl(memory, fcntl.F_ADD_SEALS, seals)
        self.room, theirs = socket.socketpair()
        socket.send_fds(self.bell, [answer or right], [memory, theirs.fileno()][:descriptors])
        kind, sequence, self.result, _ = w.receive()
        assert kind == REPLY and sequence == 0
        theirs.close()
        self.memory = mmap.mmap(memory, size)
        os.close(memory)
        self.head = self.tail = 0

    def close(self):
        self.bell.close()
        self.room.close()

    def set(self, at, value, form='<Q'):
        struct.pack_into(form, self.memory, at, value)

    def get(self, at, form='<Q'):
        return struct.unpack_from(form, self.memory, at)[0]

    def publish(self):
        self.set(HEAD, self.head)
        self.bell.send(b'x')

    def segment(self, data, place=0, announce=None):
        """One segment up, its bytes in the ring or in a place."""
        struct.pack_into(
            '<II',
            self.memory,
            BYTES + self.head % RING,
            len(data) if announce is None else announce,
            place,
        )
        self.head += 8
        if place:
            at = BYTES + RING + (place - 1) * PLACE
            self.memory[at : at + len(data)] = data
            return
        for i, byte in enumerate(data.ljust(-(-len(data) // 8) * 8, b'\0')):
            self.memory[BYTES + (self.head + i) % RING] = byte
        self.head += -(-len(data) // 8) * 8

    def receive(self):
        """What has come down, all of it; waits for something."""
        out = b''
        while not out:
            self.set(DIRECTION + RECEIVER_SLEEPS, 1, '<I')
            while self.tail != self.get(DIRECTION + HEAD):
                n, place = struct.unpack_from(
                    '<II', self.memory, DIRECTION + BYTES + self.tail % RING
                )
                self.tail += 8
                if place:
                    at = DIRECTION + BYTES + RING + (place - 1) * PLACE
                    out += self.memory[at : at + n]
                    self.set(
                        DIRECTION + RETURNED,
                        self.get(DIRECTION + RETURNED, '<I') | 1 << (place - 1),
                        '<I',
                    )
                else:
                    out += bytes(
                        self.memory[DIRECTION + BYTES + (self.tail + i) % RING] for i in range(n)
                    )
                    self.tail += -(-n // 8) * 8
            self.set(DIRECTION + TAIL, self.tail)
            if not out:
                select.select([self.bell], [], [], LIMIT)
                if not self.bell.recv(100):
                    raise EOFError
        return out

    def send(self, kind, body=b'', value=0):
        self.worker.sequence += 1
        self.segment(HEADER.pack(len(body), kind, WANTS_REPLY, self.worker.sequence, value) + body)
        self.publish()

    def ask(self, name, body=b'', value=0):
        self.send(self.worker.number(name), body, value)
        answer = self.receive()
        while (
            len(answer) < HEADER.size or len(answer) < HEADER.size + HEADER.unpack_from(answer)[0]
        ):
            answer += self.receive()
        return HEADER.unpack_from(answer)[4], answer[HEADER.size :]


def case_through_memory(w):
    "a client that shares memory: calls, a copy each way, its end"
    s = Shared(w)
    assert s.result == 0, s.result
    address = alive(s)
    data = random.randbytes(4096)
    head = struct.pack('<QQI', address, 4096, 0)
    w.sequence += 1
    s.segment(HEADER.pack(20 + 4096, w.number('cuMemcpyHtoDAsync_v2'), 0, w.sequence, 100) + head)
    s.segment(data[:1000], place=3)
    s.segment(data[1000:], place=1)
    s.publish()
    result, answer = s.ask('cuMemcpyDtoHAsync_v2', head, value=100)
    assert result == 0 and answer == data, (result, len(answer))
    s.close()


def case_offer_declined(w):
    "offers that no worker takes: the connection goes on as it was"
    listening, _, _, body = offer_of(w, port=1)
    send_offer(w, body)
    kind, sequence, result, _ = w.receive()
    assert (kind, sequence, result) == (REPLY, 0, 801), (kind, sequence, result)
    alive(w)
    w.close()


def case_offer_unsealed(w):
    "memory whose size the client can change"
    assert Shared(w, seals=0b100).result == 801
    alive(w)
    w.close()


def case_offer_small(w):
    "memory that is too small"
    assert Shared(w, size=4096).result == 801
    w.close()


def case_offer_one(w):
    "one descriptor where there should be two"
    assert Shared(w, descriptors=1).result == 801
    w.close()


def case_offer_word(w):
    "somebody who does not know the word"
    assert Shared(w, answer=bytes(32)).result == 801
    w.close()


def case_offer_length(w):
    "an offer that is too long"
    send_offer(w, offer_of(w)[3] + b'x')


def case_offer_late(w):
    "an offer that is not the first frame"
    alive(w)
    send_offer(w, offer_of(w)[3])


def case_offer_and_more(w):
    "frames behind an offer"
    body = offer_of(w)[3]
    w.socket.sendall(
        (HEADER.pack(len(body), OFFER, WANTS_REPLY, 0, 0) + body)
        + HEADER.pack(0, 1, WANTS_REPLY, 1, 0)
    )


def case_shared_cut(w):
    "a client that ends inside a frame"
    s = Shared(w)
    s.segment(HEADER.pack(9, w.number('cuMemAlloc_v2'), WANTS_REPLY, 1, 0) + b'x')
    s.publish()
    s.close()
    w.close()


def case_shared_head(w):
    "a ring that holds more than it can"
    s = Shared(w)
    s.head = RING + 8
    s.publish()
    return s  # kept open: the worker must end by itself


def case_shared_segment(w):
    "a segment longer than a place"
    s = Shared(w)
    s.segment(b'', place=1, announce=PLACE + 1)
    s.publish()
    return s


def case_shared_scribble(w):
    "random words all over the shared memory, while calls go on"
    s = Shared(w)
    alive(s)
    for _ in range(300):
        w.sequence += 1
        began = BYTES + s.head % RING
        s.segment(
            HEADER.pack(4, w.number('cuStreamSynchronize'), WANTS_REPLY, w.sequence, 100)
            + struct.pack('<I', 0)
        )
        word = random.choice(
            (HEAD, TAIL, RETURNED, RECEIVER_SLEEPS, SENDER_SLEEPS, began)
        ) + random.choice((0, DIRECTION))
        s.set(HEAD, s.head)
        s.set(word, random.choice((0, 8, random.getrandbits(64), random.getrandbits(19) & ~7)))
        try:
            s.bell.send(b'x')
        except (BrokenPipeError, ConnectionResetError):
            break
    s.close()
    w.close()


def case_fuzz(w):
    "random bodies of every call: errors or a closed connection"
    alive(w)
    avoid = {'cuMemcpyDtoHAsync_v2'}  # answered by data frames
    for _ in range(400):
        name = random.choice(w.calls)
        if name in avoid:
            continue
        body = bytes(
            random.getrandbits(8) for _ in range(random.choice((0, 1, 4, 8, 9, 12, 16, 17, 24, 64)))
        )
        try:
            w.ask(name, body, value=random.choice((0, 100)))
        except (EOFError, ConnectionError):
            return
    w.close()


CASES = {name[5:]: f for name, f in globals().items() if name.startswith('case_')}


def main():
    if sys.argv[1:] == ['--list']:
        for name, f in CASES.items():
            print(name, ' '.join(f.__doc__.split()), sep='\t')
        return
    random.seed(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    w, kept = Worker(sys.argv[1]), None
    try:
        kept = CASES[sys.argv[2]](w)
    except EOFError:  # a case that waits for an answer, where the worker gives none
        pass
    status, err = w.end()
    del kept
    print(f'status {status}; {err.strip()}')


if __name__ == '__main__':
    main()
