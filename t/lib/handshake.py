# SPDX-License-Identifier: Apache-2.0
"""The data port's handshake for tests, both sides, written from doc/protocol.md."""
import hashlib
import hmac
import os
import socket
import struct

VERSION = 3
HELLO_BYTES, CLIENT_BYTES, VERDICT_BYTES = 40, 216, 192
WORK, HOLD, LANE = 0, 1, 2
LEASE_AT, PURPOSE_AT, DIGEST_AT, PROOF_AT = 40, 172, 176, 184
ACCEPTED_AT, VERDICT_PROOF_AT = 4, 8


def read(sock, n):
    data = b""
    while len(data) < n:
        part = sock.recv(n - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def proof(secret, *said):
    return hmac.new(secret, b"".join(bytes(part) for part in said), hashlib.sha256).digest()


def server_hello(flags=0):
    return struct.pack("<4sHH32s", b"RGPU", VERSION, flags, os.urandom(32))


def sign_client(secret, server, client):
    """A client's hello with the proof that belongs there."""
    said = bytes(client[:PROOF_AT])
    return said + proof(secret, b"rgpu data client 2", server, said)


def client_hello(secret, server, lease, purpose=WORK, digest=0, host=b"test"):
    version, flags = struct.unpack_from("<HH", server, 4)
    said = struct.pack(
        "<4sHH32s64s64sIIQ",
        b"RGPU",
        version,
        flags,
        os.urandom(32),
        lease,
        host,
        os.getpid(),
        purpose,
        digest,
    )
    return sign_client(secret, server, said)


def sign_verdict(secret, server, client, verdict):
    """A verdict with the proof that belongs there."""
    head, rest = bytes(verdict[:VERDICT_PROOF_AT]), bytes(verdict[VERDICT_PROOF_AT + 32 :])
    return head + proof(secret, b"rgpu data server 2", server, client, head, bytes(32), rest) + rest


def verdict(secret, server, client, accepted, text=b""):
    return sign_verdict(
        secret, server, client, struct.pack("<4sI32s152s", b"RGPU", accepted, bytes(32), text)
    )


def is_proved(secret, server, client, verdict):
    return hmac.compare_digest(sign_verdict(secret, server, client, verdict), bytes(verdict))


def opened(port, lease, secret, purpose=WORK, digest=0, piece=CLIENT_BYTES):
    """A connection to a data port of this host, its server's hello, its own, and the verdict."""
    sock = socket.create_connection(("127.0.0.1", int(port)), timeout=30)
    server = read(sock, HELLO_BYTES)
    client = client_hello(secret, server, lease, purpose, digest)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for at in range(0, len(client), piece):
        sock.sendall(client[at : at + piece])
    return sock, server, client, read(sock, VERDICT_BYTES)


def pass_on(client, server, secret, change_hello=None, change_verdict=None):
    """Carries a handshake between two sockets. The changes, in a bytearray, are signed as one does
    who has the lease's file: (hello, verdict)."""
    first = read(server, HELLO_BYTES)
    client.sendall(first)
    came = read(client, CLIENT_BYTES)
    hello = bytearray(came)
    if change_hello:
        change_hello(hello)
        hello = sign_client(secret, first, hello)
    server.sendall(hello)
    told = bytearray(read(server, VERDICT_BYTES))
    if change_verdict:
        change_verdict(told)
    if change_hello or change_verdict:
        told = sign_verdict(secret, first, came, told)
    client.sendall(told)
    return came, told
