"""Passes connections on and keeps what goes over them.

  recording_proxy.py TO_PORT RECORD   says its own port, then forwards 127.0.0.1 to 127.0.0.1; RECORD gets all bytes
"""
import socket
import sys
import threading

to, record = int(sys.argv[1]), open(sys.argv[2], 'ab', buffering=0)


def pump(source, sink):
    try:
        while data := source.recv(65536):
            record.write(data)
            sink.sendall(data)
    except OSError:
        pass
    finally:
        for s in source, sink:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


with socket.create_server(('127.0.0.1', 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        client = server.accept()[0]
        beyond = socket.create_connection(('127.0.0.1', to))
        for ends in (client, beyond), (beyond, client):
            threading.Thread(target=pump, args=ends, daemon=True).start()
