# SPDX-License-Identifier: Apache-2.0
"""Stands between a client and rgpud's data port, and makes one side look like one that packs
otherwise.

pack_proxy.py LEASE_FILE OUT_FILE old|up|down

Listens on a port of its own and writes OUT_FILE, a lease file that leads there. old: the server is
one that knows no packed frames, nor lanes; a frame that it would not know ends the connection, and
is told. up, down: in the first packed part that goes to the server, or comes from it, the length of
what it becomes is one less.
"""
import socket
import struct
import threading

from data_proxy import HEADER, end_both, run, secrets
from handshake import read
from handshake import ACCEPTED_AT, pass_on

TAKES_PACKED, PACKING_CALL, PART_CALL, PART_FRAME = 8, 0xFFF4, 0xFFF5, 6
TAKES_LANES, LANES_CALL = 16, 0xFFF6


def carry(source, to, change):
    """Frame by frame, until either ends or `change` says so."""
    try:
        while True:
            head = list(HEADER.unpack(read(source, HEADER.size)))
            body = read(source, head[0])
            if not change(head):
                break
            to.sendall(HEADER.pack(*head) + body)
    except (EOFError, ConnectionError):
        pass
    end_both(source, to)


def damage(part_type):
    done = []

    def change(head):
        if head[1] == part_type and head[3] and not done:
            head[4] -= 1
            done.append(head)
        return True

    return change


def known(head):
    if head[1] not in (PACKING_CALL, PART_CALL, LANES_CALL):
        return True
    print('unknown', hex(head[1]), flush=True)
    return False


def serve(client, address, mode):
    server = socket.create_connection(address)

    def older(verdict):
        (accepted,) = struct.unpack_from('<I', verdict, ACCEPTED_AT)
        struct.pack_into('<I', verdict, ACCEPTED_AT, accepted & ~(TAKES_PACKED | TAKES_LANES))

    _, verdict = pass_on(
        client, server, secrets[0], change_verdict=older if mode == 'old' else None
    )
    assert mode == 'old' or struct.unpack_from('<I', verdict, ACCEPTED_AT)[0] & TAKES_PACKED
    same = lambda head: True
    up = known if mode == 'old' else damage(PART_CALL) if mode == 'up' else same
    threading.Thread(
        target=carry,
        args=(server, client, damage(PART_FRAME) if mode == 'down' else same),
        daemon=True,
    ).start()
    carry(client, server, up)


run(serve)
