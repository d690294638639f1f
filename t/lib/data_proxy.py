# SPDX-License-Identifier: Apache-2.0
"""What the proxies in front of rgpud's data port share: frames, ends, and the lease file that leads
to them."""
import json
import os
import socket
import struct
import sys
import threading


HEADER = struct.Struct('<IHHII')
secrets = []  # of the lease that listen_for() has read


def end_both(one, other):
    for end in (one, other):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def listen_for(lease_file, out):
    """Writes `out`, this lease file with a listener of this process in place of its first server.
    The listener, and where the server is: (host, port)."""
    with open(lease_file) as f:
        lease = json.load(f)
    secrets[:] = [bytes.fromhex(lease['servers'][0]['secret'])]
    host, port = lease['servers'][0]['address'].rsplit(':', 1)
    listener = socket.create_server(('127.0.0.1', 0))
    lease['servers'][0]['address'] = '127.0.0.1:%d' % listener.getsockname()[1]
    with open(out + '.new', 'w') as f:
        json.dump(lease, f)
    os.rename(out + '.new', out)
    return listener, (host, int(port))


def run(serve):
    """PROGRAM LEASE_FILE OUT_FILE MODE: serve(client's connection, the server's address, MODE) in a
    thread for each that comes, until killed."""
    lease_file, out, mode = sys.argv[1:4]
    listener, server = listen_for(lease_file, out)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(client, server, mode), daemon=True).start()
