"""A lease file that names a listener of this process in place of its first server."""
import json
import os
import socket


def listen_for(lease_file, out):
    """Writes such a file, `out`, for this lease file. The listener, and where the server is: (host, port)."""
    with open(lease_file) as f:
        lease = json.load(f)
    host, port = lease['servers'][0]['address'].rsplit(':', 1)
    listener = socket.create_server(('127.0.0.1', 0))
    lease['servers'][0]['address'] = '127.0.0.1:%d' % listener.getsockname()[1]
    with open(out + '.new', 'w') as f:
        json.dump(lease, f)
    os.rename(out + '.new', out)
    return listener, (host, int(port))
