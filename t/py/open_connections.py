# SPDX-License-Identifier: Apache-2.0
"""open_connections.py HOST:PORT COUNT TEXT: opens so many connections, sends the text over each,
and keeps them, and others in the place of those that the server closes, until it is ended."""
import codecs
import select
import socket
import sys

host, port = sys.argv[1].rsplit(':', 1)
count, text = int(sys.argv[2]), codecs.decode(sys.argv[3], 'unicode_escape').encode()


def opened():
    made = socket.create_connection((host, int(port)), 10)
    made.sendall(text)
    return made


connections = [opened() for _ in range(count)]
print('open', count, flush=True)
while True:
    closed, _, _ = select.select(connections, [], [])
    for one in closed[:20]:
        try:
            if one.recv(4096):
                continue
        except ConnectionError:
            pass
        one.close()
        connections[connections.index(one)] = opened()
