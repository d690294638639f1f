# SPDX-License-Identifier: Apache-2.0
"""Stands between a client and rgpud's data port, without the lease's secret.

between.py PORT LEASE SECRET_HEX CHANGE
    a client's handshake through it, in which it changes what they say; prints "server accepted",
    "server refused" or "server silent", and "client accepted" or "client refused"

  hold       the client's purpose: it asks for a worker, and gets nothing but a holder
  work       ... the other way round
  lane       a lane goes to another worker
  digest     the digest of the call table
  bits       what the verdict says that the server takes
  accepted   a refusal becomes an acceptance, with the client's own proof in it
  flags      encryption, at both ends
  older      the client's version, which is one less
  none       nothing
"""
import socket
import struct
import sys

import handshake
from handshake import (
    ACCEPTED_AT,
    CLIENT_BYTES,
    DIGEST_AT,
    HELLO_BYTES,
    HOLD,
    LANE,
    PROOF_AT,
    PURPOSE_AT,
    VERDICT_BYTES,
    WORK,
)

port, lease, secret, change = (
    int(sys.argv[1]),
    sys.argv[2].encode(),
    bytes.fromhex(sys.argv[3]),
    sys.argv[4],
)
purpose = {"work": HOLD, "lane": LANE}.get(change, WORK)

server = socket.create_connection(("127.0.0.1", port), timeout=10)
seen = bytearray(handshake.read(server, HELLO_BYTES))
if change == "flags":
    seen[6] ^= 1
# The client's side of it, honest.
mine = handshake.client_hello(secret, seen, lease, purpose, 7)
said = bytearray(mine)
if change == "flags":
    said[6] ^= 1
if change in ("hold", "work"):
    struct.pack_into("<I", said, PURPOSE_AT, HOLD if change == "hold" else WORK)
if change in ("lane", "digest"):
    struct.pack_into("<Q", said, DIGEST_AT, 8)
if change == "older":
    struct.pack_into("<H", said, 4, handshake.VERSION - 1)
    said = bytearray(handshake.sign_client(secret, seen, said))
server.sendall(said)
try:
    verdict = bytearray(handshake.read(server, VERDICT_BYTES))
    accepted = struct.unpack_from("<I", verdict, ACCEPTED_AT)[0]
    print(
        "server",
        "accepted"
        if accepted
        else "refused" + (": " + verdict[40:].rstrip(b"\0").decode() if change == "older" else ""),
    )
except EOFError:
    print("server silent")
    sys.exit(0)
if change == "bits":
    struct.pack_into("<I", verdict, ACCEPTED_AT, accepted ^ 8)
if change == "accepted":
    verdict = bytearray(struct.pack("<4sI32s152s", b"RGPU", 1, mine[PROOF_AT:CLIENT_BYTES], b""))
taken = struct.unpack_from("<I", verdict, ACCEPTED_AT)[0] and handshake.is_proved(
    secret, seen, mine, verdict
)
print("client", "accepted" if taken else "refused")
