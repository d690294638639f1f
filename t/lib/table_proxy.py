# SPDX-License-Identifier: Apache-2.0
"""Stands between a client and rgpud's data port, and makes the server look like one of another rgpu
version.

table_proxy.py LEASE_FILE OUT_FILE [--without CALL,CALL...] [--none CALL,CALL...] [--version N]

Listens on a port of its own and writes OUT_FILE, a lease file that leads there. The server is told
of another table, so that it sends its calls' names; the client gets them in another order, without
the calls named, those of --none as calls that the server knows and does not carry out (a client
that sends one loses its connection, as the worker has it), and, with --version, another driver
version. Calls' numbers are translated on their way. Prints "sent CALL" for each call that passes,
once.
"""
import socket
import struct
import sys
import threading

from data_proxy import HEADER, listen_for, secrets
from handshake import read
from handshake import DIGEST_AT, pass_on


def frames(sock):
    while True:
        try:
            head = HEADER.unpack(read(sock, HEADER.size))
            yield list(head), read(sock, head[0])
        except (EOFError, ConnectionError):
            return


class Other:
    """The snapshot as the client gets it, and what its call numbers mean."""

    def __init__(self, body, without, none, version):
        at = body.index(struct.pack('<I', len('cuGetErrorString')) + b'cuGetErrorString') - 8
        (count,) = struct.unpack_from('<Q', body, at)
        names, p = [], at + 8
        for _ in range(count):
            (n,) = struct.unpack_from('<I', body, p)
            names.append(body[p + 4 : p + 4 + n].decode())
            p += 4 + n
        served = body[p + 8 :]
        assert struct.unpack_from('<Q', body, p)[0] == len(served) == count
        numbers = [i for i in reversed(range(count)) if names[i] not in without]
        numbers = numbers[7:] + numbers[:7]
        self.names = names
        self.real = numbers  # the client's number -> the server's
        head = bytearray(body[:at])
        if version:
            (server,) = struct.unpack_from('<I', head, 0)
            struct.pack_into('<i', head, 4 + server, version)
        tail = b''.join(struct.pack('<I', len(names[i])) + names[i].encode() for i in numbers)
        self.served = [served[i] and names[i] not in none for i in numbers]
        assert any(self.served) and not all(self.served)
        self.body = (
            bytes(head)
            + struct.pack('<Q', len(numbers))
            + tail
            + struct.pack('<Q', len(numbers))
            + bytes(self.served)
        )


def serve(client, address, without, none, version):
    server = socket.create_connection(address)
    # The digest of a table that nobody has.
    pass_on(
        client,
        server,
        secrets[0],
        change_hello=lambda hello: struct.pack_into('<Q', hello, DIGEST_AT, 1),
    )
    head, body = next(frames(server))
    other = Other(body, without, none, version)
    head[0] = len(other.body)
    client.sendall(HEADER.pack(*head) + other.body)

    def down():
        for head, body in frames(server):
            client.sendall(HEADER.pack(*head) + body)
        client.close()

    threading.Thread(target=down, daemon=True).start()
    said = set()
    for head, body in frames(client):
        if head[1] >= 0xFF00:  # no call of the table
            server.sendall(HEADER.pack(*head) + body)
            continue
        if not other.served[head[1]]:
            print('refused', other.names[other.real[head[1]]], flush=True)
            break
        head[1] = other.real[head[1]]
        if head[1] not in said:
            said.add(head[1])
            print('sent', other.names[head[1]], flush=True)
        server.sendall(HEADER.pack(*head) + body)
    server.shutdown(socket.SHUT_WR)
    client.shutdown(socket.SHUT_RDWR)


def main():
    lease_file, out = sys.argv[1:3]
    options = dict(zip(sys.argv[3::2], sys.argv[4::2]))
    listener, server = listen_for(lease_file, out)
    while True:
        client, _ = listener.accept()
        threading.Thread(
            target=serve,
            args=(
                client,
                server,
                set(options.get('--without', '').split(',')),
                set(options.get('--none', '').split(',')),
                int(options.get('--version', 0)),
            ),
            daemon=True,
        ).start()


main()
