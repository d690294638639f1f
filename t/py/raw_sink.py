# SPDX-License-Identifier: Apache-2.0
"""Reads all that comes to 10.99.0.1, one connection after the other; writes its port to the file
"port"."""
import os
import socket

with socket.create_server(("10.99.0.1", 0)) as listening:
    with open("port.new", "w") as f:
        f.write(str(listening.getsockname()[1]))
    os.rename("port.new", "port")
    room = bytearray(1 << 20)
    while True:
        s, _ = listening.accept()
        while s.recv_into(room):
            pass
        s.close()
