# SPDX-License-Identifier: Apache-2.0
"""raw_stream.py MEGABYTES: sends so many to 10.99.0.1, where raw_sink.py listens; prints GB/s."""
"""stream.py MEGABYTES: a raw stream to 10.99.0.1; GB/s."""
import socket
import sys
import time

size = int(sys.argv[1]) << 20
with socket.create_connection(("10.99.0.1", int(open("port").read()))) as s:
    block, begin = bytes(1 << 20), time.monotonic()
    for _ in range(size >> 20):
        s.sendall(block)
    s.shutdown(socket.SHUT_WR)
    s.recv(1)
    print(size / 1e9 / (time.monotonic() - begin))
