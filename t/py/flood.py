# SPDX-License-Identifier: Apache-2.0
"""flood.py PORT COUNT: holds half-sent requests open, asks properly, and prints how long the
answers took."""
import select
import socket
import sys
import time

port, count = int(sys.argv[1]), int(sys.argv[2])
parts = [
    b"",
    b"GET /v1/inv",
    b"POST /v1/offers HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n{\"gpus\"",
    b"G",
]
held = []
for i in range(count):
    s = socket.create_connection(("127.0.0.1", port), timeout=5)
    s.sendall(parts[i % len(parts)])
    held.append(s)


def ask(s):
    s.sendall(b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n")
    data = b""
    while b"\r\n\r\n" not in data or b"ok" not in data:
        part = s.recv(4096)
        if not part:
            return False
        data += part
    return b" 200 " in data


slowest = 0
for i in range(20):
    begin = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
        good = ask(s)
    slowest = max(slowest, time.monotonic() - begin)
    if not good:
        print("refused")
        sys.exit(1)
print("slowest %d ms" % (slowest * 1000))
# Two requests in one packet, and one byte by byte: both are answered.
with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
    s.sendall(b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
    data = b""
    while data.count(b" 200 ") < 2:
        part = s.recv(4096)
        if not part:
            break
        data += part
    print("two in one packet:", data.count(b" 200 "))
with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in b"GET /v1/health HTTP/1.1\r\nHost: x\r\n":
        s.sendall(bytes([byte]))
    s.sendall(b"\r\n")
    print("byte by byte:", b" 200 " in s.recv(4096))
# All of those that said half are closed.
poll, open_ones, end = select.poll(), {s.fileno(): s for s in held}, time.monotonic() + 15
for fd in open_ones:
    poll.register(fd, select.POLLIN)
while open_ones and time.monotonic() < end:
    for fd, _ in poll.poll(1000):
        try:
            if open_ones[fd].recv(4096):
                continue
        except OSError:
            pass
        poll.unregister(fd)
        del open_ones[fd]
print("still open:", len(open_ones))
