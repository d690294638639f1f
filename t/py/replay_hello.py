# SPDX-License-Identifier: Apache-2.0
"""replay_hello.py PORT LEASE SECRET: says the same hello three times; prints 1 where the server
takes it."""
import handshake
import socket
import sys

port, lease, secret = int(sys.argv[1]), sys.argv[2].encode(), bytes.fromhex(sys.argv[3])
said = None
for _ in range(3):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
        server = handshake.read(s, handshake.HELLO_BYTES)
        said = said or handshake.client_hello(secret, server, lease)
        s.sendall(said)
        print(s.recv(192, socket.MSG_WAITALL)[4] & 1, end=" ")
