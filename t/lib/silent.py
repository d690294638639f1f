# SPDX-License-Identifier: Apache-2.0
"""Connections that say nothing, from one address or from many, and another who wants to be served.

silent.py control PORT one|many COUNT
    prints "slowest N ms" of 20 requests from 127.0.0.1
silent.py data PORT one|many COUNT LEASE SECRET_HEX
    the same with handshakes from 127.0.0.1, tried again as libcuda.so.1 does it. With "one" each is
    half a second slow, which does not count

While the other is served the silent ones, from 127.0.1.1 or 127.0.1.1 to 127.0.1.200, come again
for each that is closed.
"""
import os
import select
import socket
import sys
import threading
import time

import handshake

kind, port, where, count = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
delay = 0.5 if kind == "data" and where == "one" else 0
ended = threading.Event()
full = threading.Event()


def silent(number):
    s = socket.socket()
    s.bind(("127.0.1.%d" % (1 + (number % 200 if where == "many" else 0)), 0))
    s.setblocking(False)
    s.connect_ex(("127.0.0.1", port))
    return s


def crowd():
    poll, held = select.poll(), {}

    def one_more(number):
        s = silent(number)
        held[s.fileno()] = s, number
        poll.register(s, select.POLLRDHUP | select.POLLHUP | select.POLLERR)

    for number in range(count):
        one_more(number)
    full.set()
    while not ended.is_set():
        for fd, _ in poll.poll(10):
            s, number = held.pop(fd)
            poll.unregister(fd)
            s.close()
            one_more(number)
        time.sleep(0.001)


def ask():
    with socket.create_connection(("127.0.0.1", port), timeout=5) as s:
        s.sendall(b"GET /v1/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return s.recv(4096).startswith(b"HTTP/1.1 200")


def shake():
    """The half second is the way there and back."""
    end = time.monotonic() + 1
    while time.monotonic() < end:
        try:
            return shake_once()
        except (OSError, EOFError):
            time.sleep(0.1)
    return False


def shake_once():
    lease, secret = sys.argv[5].encode(), bytes.fromhex(sys.argv[6])
    with socket.create_connection(("127.0.0.1", port), timeout=5) as s:
        hello = handshake.read(s, handshake.HELLO_BYTES)
        time.sleep(delay)
        mine = handshake.client_hello(secret, hello, lease, handshake.LANE)
        s.sendall(mine)
        return handshake.is_proved(secret, hello, mine, handshake.read(s, handshake.VERDICT_BYTES))


thread = threading.Thread(target=crowd, daemon=True)
thread.start()
full.wait()
slowest = 0
for _ in range(20 if kind == "control" else 4):
    begin = time.monotonic()
    try:
        good = ask() if kind == "control" else shake()
    except (OSError, EOFError) as failure:
        good = print("refused:", failure)
    if not good:
        print("not served")
        sys.exit(1)
    slowest = max(slowest, time.monotonic() - begin - delay)
print("slowest %d ms" % (slowest * 1000), flush=True)
ended.set()
os._exit(0)
