# SPDX-License-Identifier: Apache-2.0
"""Attackers of the control port in TLS.

tls_peer.py forge CERTIFICATE KEY   a server with another key, which answers every request
tls_peer.py clear                   one in the place of a server, which speaks no TLS
tls_peer.py cut                     one that ends the connection within the handshake
    Each listens on loopback, writes its port on stdout, and serves until killed.
tls_peer.py replay PORT RECORD      sends what a client sent once to the server again; prints the
                                    bytes that come back after the server's part of the handshake
                                    could be understood by nobody, or "nothing"
tls_peer.py silent PORT COUNT       COUNT connections that begin a handshake and say no more; prints
                                    how many the server has closed after 8 s
"""
import select
import socket
import ssl
import sys
import threading
import time

ANSWER = (
    b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n'
    b'Connection: close\r\n\r\n{}'
)
# A record of a handshake that is not whole (RFC 8446, 5.1): type 22, version, 512 bytes to come.
BEGINNING = bytes([22, 3, 1, 2, 0, 1, 0, 1, 0xFC])


def answer(connection):
    try:
        connection.recv(65536)
        connection.sendall(ANSWER)
        connection.close()
    except OSError:
        pass


def forged(connection, context):
    try:
        answer(context.wrap_socket(connection, server_side=True))
    except OSError:
        pass


def cut(connection):
    connection.recv(10)
    connection.close()


def serve(handle):
    listener = socket.create_server(('127.0.0.1', 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=handle, args=(connection,), daemon=True).start()


def replay(port, record):
    with open(record, 'rb') as f:
        said = f.read()
    with socket.create_connection(('127.0.0.1', port), 5) as connection:
        connection.sendall(said)
        got = b''
        try:
            while part := connection.recv(65536):
                got += part
        except OSError:
            pass
    print('an answer' if b'HTTP/1.1' in got else 'nothing')


def silent(port, count):
    connections = []
    for _ in range(count):
        connections.append(socket.create_connection(('127.0.0.1', port), 5))
        connections[-1].sendall(BEGINNING)
    end = time.monotonic() + 8
    closed = 0
    while connections and time.monotonic() < end:
        ready, _, _ = select.select(connections, [], [], 0.5)
        for connection in ready:
            try:
                over = connection.recv(4096) == b''
            except OSError:
                over = True
            if over:
                connections.remove(connection)
                closed += 1
    print(closed)


def main():
    mode, arguments = sys.argv[1], sys.argv[2:]
    if mode == 'forge':
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*arguments)
        serve(lambda connection: forged(connection, context))
    elif mode == 'clear':
        serve(answer)
    elif mode == 'cut':
        serve(cut)
    elif mode == 'replay':
        replay(int(arguments[0]), arguments[1])
    elif mode == 'silent':
        silent(int(arguments[0]), int(arguments[1]))
    else:
        sys.exit(__doc__)


main()
