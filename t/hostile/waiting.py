#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a worker wait in very many places, as no program does: with a client written from
doc/protocol.md.

usage: waiting.py WORKER CASE     prints "ok", or what is wrong. Cases: threads, calls,
lookups.
"""
import os
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'lib'))
import wire_client  # noqa: E402

CONTEXT, STREAM, TOKEN = 100, 200, 7
ENQUEUE, DONE = 0, 1
MOST = 1024  # threads


def threads(w):
    with open(f'/proc/{w.process.pid}/status') as status:
        return int(next(line for line in status if line.startswith('Threads:')).split()[1])


def stand(w):
    """A stream that stands at a host function of the program's."""
    w.ask('cuDevicePrimaryCtxRetain', struct.pack('<Ii', CONTEXT, 0))
    w.send(
        w.number('cuStreamCreateWithPriority'),
        struct.pack('<IIi', STREAM, 1, 0),
        flags=0,
        value=CONTEXT,
    )
    w.send(
        w.number('cuLaunchHostFunc'),
        struct.pack('<IIQ', ENQUEUE, STREAM, TOKEN),
        flags=0,
        value=CONTEXT,
    )


def wait(w, times):
    for _ in range(times):
        w.send(w.number('cuStreamSynchronize'), struct.pack('<I', STREAM), value=CONTEXT)


def case_threads(w):
    stand(w)
    wait(w, 3000)
    # What comes behind them is answered when they were taken.
    result, _ = w.ask('cuMemAlloc_v2', struct.pack('<BQ', 1, 4096), value=CONTEXT)
    assert result == 0, result
    before, now = 0, threads(w)
    while before != now:
        time.sleep(0.1)
        before, now = now, threads(w)
    assert now < MOST, f'{now} threads'
    w.send(w.number('cuLaunchHostFunc'), struct.pack('<IQ', DONE, TOKEN), flags=0, value=CONTEXT)
    answered = 0
    while answered < 3000:
        kind, _, value, _ = w.receive()
        if kind == wire_client.REPLY:
            assert value == 0, value
            answered += 1
    w.close()
    assert w.end()[0] == 0


def is_closed(w, send):
    try:
        send()
    except OSError:
        pass
    status, err = w.end()
    assert status == 3 and 'more calls wait than any program makes' in err, (status, err)


def case_calls(w):
    stand(w)
    is_closed(w, lambda: wait(w, 40000))


def case_lookups(w):
    """They wait for the host function, a second at most: so they come all at once."""
    stand(w)
    body = struct.pack('<III', 300, 400, 1) + b'f'
    kind = w.number('cuModuleGetFunction')
    head = wire_client.HEADER.pack(len(body), kind, wire_client.WANTS_REPLY, 1000, CONTEXT)
    is_closed(w, lambda: w.socket.sendall((head + body) * 40000))


w = wire_client.Worker(sys.argv[1])
try:
    cases = {'threads': case_threads, 'calls': case_calls, 'lookups': case_lookups}
    cases[sys.argv[2]](w)
    print('ok')
finally:
    w.process.kill()
