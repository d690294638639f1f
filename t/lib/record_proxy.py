# SPDX-License-Identifier: Apache-2.0
"""What a wire-tapper between a program and the GPU host sees.

record_proxy.py PORT FILE [SPOIL]
    listens on a port of its own, prints it, carries each connection to 127.0.0.1:PORT, and writes
    all bytes of both directions to FILE, and the client's alone to FILE.client. SPOIL: the byte of
    the client's stream with that number (from 0) arrives changed.
"""
import socket
import sys
import threading

from data_proxy import end_both

port, record = int(sys.argv[1]), open(sys.argv[2], "ab", buffering=0)
of_clients = open(sys.argv[2] + ".client", "ab", buffering=0)
spoil = int(sys.argv[3]) if len(sys.argv) > 3 else None
lock = threading.Lock()


def carry(source, to, records, at=None):
    try:
        while data := source.recv(65536):
            if at is not None and at < len(data):
                data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
                at = None
            elif at is not None:
                at -= len(data)
            with lock:
                for file in records:
                    file.write(data)
            to.sendall(data)
    except OSError:
        pass
    end_both(source, to)


with socket.create_server(("127.0.0.1", 0)) as listening:
    print(listening.getsockname()[1], flush=True)
    while True:
        client, _ = listening.accept()
        server = socket.create_connection(("127.0.0.1", port))
        threading.Thread(
            target=carry, args=(client, server, (record, of_clients), spoil), daemon=True
        ).start()
        threading.Thread(target=carry, args=(server, client, (record,)), daemon=True).start()
