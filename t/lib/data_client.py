# SPDX-License-Identifier: Apache-2.0
"""A client of rgpud's data port for tests.

data_client.py PORT LEASE SECRET_HEX [--hold | --speak TEXT | --lane NUMBER | --slowly]
    shakes hands and prints "accepted" (and, that the server proved the secret, "proved"), or
    "refused: REASON", or "closed". --hold keeps the connection until stdin ends; --speak sends the
    text and waits for the end. --lane comes as a lane for the worker of that number, and prints
    what it hears. --slowly says its hello a byte at a time.
"""
import socket
import struct
import sys

import handshake

extra = sys.argv[4:]
lane_of = extra[1] if extra[:1] == ["--lane"] else None
port, lease, secret = int(sys.argv[1]), sys.argv[2].encode(), bytes.fromhex(sys.argv[3])

try:
    sock, server, client, verdict = handshake.opened(
        port,
        lease,
        secret,
        handshake.LANE if lane_of else handshake.WORK,
        int(lane_of or 0),
        1 if extra == ["--slowly"] else handshake.CLIENT_BYTES,
    )
except EOFError:
    print("closed")
    sys.exit(1)
with sock:
    magic, accepted, _, text = struct.unpack("<4sI32s152s", verdict)
    if not accepted:
        print("refused:", text.rstrip(b"\0").decode())
        sys.exit(1)
    print(
        "accepted",
        "proved" if handshake.is_proved(secret, server, client, verdict) else "NOT PROVED",
        flush=True,
    )
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
