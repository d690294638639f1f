"""A client of rgpud's data port for tests, written from doc/protocol.md.

data_client.py PORT LEASE SECRET_HEX [--hold | --speak TEXT | --lane NUMBER]
    shakes hands and prints "accepted" (and, that the server proved the secret, "proved"), or
    "refused: REASON", or "closed". --hold keeps the connection until stdin ends; --speak sends the text and
    waits for the end. --lane comes as a lane for the worker of that number, and prints what it hears.
"""
import hashlib
import hmac
import os
import socket
import struct
import sys

extra = sys.argv[4:]
lane_of = extra[1] if extra[:1] == ["--lane"] else None
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
    sock.sendall(struct.pack("<4sHH32s64s64sIIQ32s", magic, version, flags, mine, lease, b"test", os.getpid(), 2 if lane_of else 0, int(lane_of or 0),
                             proof(b"rgpu data client 1", flags, nonce, mine)))
    magic, accepted, theirs, text = struct.unpack("<4sI32s152s", receive(sock, 192))
    if not accepted:
        print("refused:", text.rstrip(b"\0").decode())
        sys.exit(1)
    print("accepted", "proved" if theirs == proof(b"rgpu data server 1", flags, nonce, mine) else "NOT PROVED", flush=True)
    if lane_of:
        print("heard", len(sock.recv(4, socket.MSG_WAITALL)))
    if extra == ["--hold"]:
        sys.stdin.read()
    if extra[:1] == ["--speak"]:
        sock.sendall(extra[1].encode())
        try:
            while sock.recv(4096):
                pass
        except ConnectionResetError:
            pass
