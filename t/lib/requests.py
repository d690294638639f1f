# SPDX-License-Identifier: Apache-2.0
"""What a stranger sends to rgpud's control port.

requests.py statuses PORT
    odd requests: "NAME: STATUS SENTENCE" for each
requests.py ranges PORT COUNT
    one request with 250 ranges after another
requests.py unread PORT COUNT SECONDS
    so many who ask for 8 MiB and read nothing; meanwhile another asks, again and again: prints
    "slowest N ms", then "closed N", how many were closed within SECONDS
requests.py pipeline PORT
    10,000 requests in one go: prints how many were answered
requests.py trickle PORT
    a request that comes byte by byte without end: prints after how many seconds it was closed
"""
import contextlib
import json
import select
import socket
import sys
import time

MiB = 1 << 20
GET = b"GET /v1/health HTTP/1.1\r\nHost: x\r\n"
POST = b"POST /v1/offers HTTP/1.1\r\nHost: x\r\n"
SMUGGLED = b"GET /v1/probe?bytes=1 HTTP/1.1\r\nHost: x\r\n\r\n"
ODD = {
    "two ranges": GET + b"Range: bytes=0-1,3-4\r\n\r\n",
    "If-Range": GET + b"If-Range: x\r\n\r\n",
    "Expect": POST + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n{}",
    "Upgrade": GET
    + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "chunks": POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "chunks and a length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
    "gzip": POST + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
    "multipart": POST
    + b"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 2\r\n\r\n{}",
    "a form": POST
    + b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 2\r\n\r\n{}",
    "Trailer": POST + b"Trailer: x\r\nContent-Length: 2\r\n\r\n{}",
    "two lengths": POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a huge body": POST + b"Content-Length: 65537\r\n\r\n",
    "a huger body": POST + b"Content-Length: 99999999999999999999\r\n\r\n",
    "65 fields": GET + b"A: b\r\n" * 64 + b"\r\n",
    "a long field": GET + b"A: " + b"b" * 17000 + b"\r\n\r\n",
    "an endless header": GET + b"A: " + b"b" * 40000,
    "a long target": b"GET /" + b"x" * 600 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "PUT": b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    "no Host": b"GET /v1/health HTTP/1.1\r\n\r\n",
    "a bare line feed": b"GET /v1/health HTTP/1.1\nHost: x\n\n",
    "a folded field": GET + b"A: b\r\n c\r\n\r\n",
}


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def status_of(data):
    return (
        data.split(b" ")[1].decode()
        if data.startswith(b"HTTP/")
        else "closed"
        if not data
        else data[:20].decode("latin1")
    )


def all_of(sock):
    data = b""
    with contextlib.suppress(OSError):
        while part := sock.recv(MiB):
            data += part
    return data


def statuses(port):
    for name, text in ODD.items():
        with connect(port) as s:
            s.sendall(text)
            s.settimeout(
                4
            )  # below the server's own limit: an answer comes at once, and then the end
            data = all_of(s)
        head, _, body = data.partition(b"\r\n\r\n")
        try:
            said = json.loads(body)["error"]["text"]
        except (ValueError, KeyError):
            said = "(no sentence)"
        print("%s: %s %s" % (name, status_of(data), said))
    # The body of one request is not the next request.
    with connect(port) as s:
        s.sendall(GET + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED)
        s.settimeout(1)
        print("answers to a request with another in its body:", all_of(s).count(b"HTTP/1.1 "))


def ranges(port, count):
    spans = b",".join(b"%d-" % i for i in range(250))
    seen = set()
    for _ in range(count):
        with connect(port) as s:
            s.sendall(
                b"GET /v1/probe?bytes=8388608 HTTP/1.1\r\nHost: x\r\nRange: bytes="
                + spans
                + b"\r\n\r\n"
            )
            s.settimeout(60)
            seen.add(status_of(s.recv(4096)))
    print(*seen)


def health(port):
    """How long another waits for an answer, in seconds."""
    begin = time.monotonic()
    with connect(port) as s:
        s.settimeout(20)
        s.sendall(GET + b"Connection: close\r\n\r\n")
        assert status_of(all_of(s)) == "200"
    return time.monotonic() - begin


def unread(port, count, seconds):
    held = []
    for _ in range(count):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(("127.0.0.1", port))
        s.sendall(b"GET /v1/probe?bytes=8388608 HTTP/1.1\r\nHost: x\r\n\r\n")
        held.append(s)
    begin = time.monotonic()
    print("slowest %d ms" % (1000 * max(health(port) for _ in range(20))), flush=True)
    # An end is seen only behind what was sent, which is not read: by what the kernel says of the
    # other side.
    poll, closed = select.poll(), 0
    for s in held:
        poll.register(s, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
    while closed < count and time.monotonic() < begin + seconds:
        for fd, _ in poll.poll(200):
            poll.unregister(fd)
            closed += 1
    print("closed", closed)


def pipeline(port):
    with connect(port) as s:
        s.settimeout(10)
        with contextlib.suppress(OSError):
            s.sendall((GET + b"\r\n") * 10000)
        print(all_of(s).count(b"HTTP/1.1 200"))


def trickle(port):
    begin = time.monotonic()
    with connect(port) as s, contextlib.suppress(OSError):
        s.sendall(GET)
        while not select.select([s], [], [], 0.2)[0]:
            s.sendall(b"A: b\r\n")
    print(int(time.monotonic() - begin))


globals()[sys.argv[1]](*map(int, sys.argv[2:]))
