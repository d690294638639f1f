"""A client of rgpud's data port for tests, written from doc/protocol.md.

data_client.py PORT LEASE SECRET_HEX [--hold | --speak TEXT]
    shakes hands and prints "accepted" (and, that the server proved the secret, "proved"), or
    "refused: REASON", or "closed". --hold keeps the connection until stdin ends; --speak sends the text and
    waits for the end.
"""
import hashlib
import hmac
import os
import socket
import struct
import sys

port, lease, secret = int(sys.argv[1]), sys.argv[2].encode(), bytes.fromhex(sys.argv[3])


def receive(sock, size):
    data = b""
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            print("closed")
            sys.exit(1)
        data += part
    return data


def proof(label, flags, server, client):
    return hmac.new(secret, label + struct.pack("<H", flags) + server + client + lease, hashlib.sha256).digest()


with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
    magic, version, flags, nonce = struct.unpack("<4sHH32s", receive(sock, 40))
    assert magic == b"RGPU", magic
    mine = os.urandom(32)
    sock.sendall(struct.pack("<4sHH32s64s64sIIQ32s", magic, version, flags, mine, lease, b"test", os.getpid(), 0, 0,
                             proof(b"rgpu data client 1", flags, nonce, mine)))
    magic, accepted, theirs, text = struct.unpack("<4sI32s152s", receive(sock, 192))
    if not accepted:
        print("refused:", text.rstrip(b"\0").decode())
        sys.exit(1)
    print("accepted", "proved" if theirs == proof(b"rgpu data server 1", flags, nonce, mine) else "NOT PROVED", flush=True)
    if sys.argv[4:] == ["--hold"]:
        sys.stdin.read()
    if sys.argv[4:5] == ["--speak"]:
        sock.sendall(sys.argv[5].encode())
        try:
            while sock.recv(4096):
                pass
        except ConnectionResetError:
            pass
