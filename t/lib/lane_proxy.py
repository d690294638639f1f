# SPDX-License-Identifier: Apache-2.0
"""Stands between a client and rgpud's data port, and troubles the further connections of a program.

lane_proxy.py LEASE_FILE OUT_FILE silent|refusing|late|cut

Listens on a port of its own and writes OUT_FILE, a lease file that leads there. Connections for
calls are carried as they are. Of a lane nothing gets to the server, and it says nothing (silent) or
ends (refusing; late: after a second); or it ends when it has carried two megabytes (cut).
"""
import socket
import struct
import threading
import time

from data_proxy import end_both, run
from handshake import read
from handshake import CLIENT_BYTES, HELLO_BYTES, LANE, PURPOSE_AT

MOST = 2 << 20
kept = []


def carry(source, to, most=None):
    try:
        while (data := source.recv(64 << 10)) and (most is None or most > 0):
            to.sendall(data)
            if most is not None:
                most -= len(data)
    except ConnectionError:
        pass
    end_both(source, to)


def serve(client, address, mode):
    server = socket.create_connection(address)
    client.sendall(read(server, HELLO_BYTES))
    hello = read(client, CLIENT_BYTES)
    lane = struct.unpack_from('<I', hello, PURPOSE_AT)[0] == LANE
    if lane and mode != 'cut':
        kept.append(client)
        if mode == 'late':
            time.sleep(1)
        if mode != 'silent':
            client.close()
        return
    server.sendall(hello)
    most = MOST if lane else None
    threading.Thread(target=carry, args=(server, client, most), daemon=True).start()
    carry(client, server, most)


run(serve)
