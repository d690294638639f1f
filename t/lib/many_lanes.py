# SPDX-License-Identifier: Apache-2.0
"""Comes as so many lanes for one worker, and goes at once.

many_lanes.py COUNT PORT LEASE SECRET_HEX WORKER: prints how many were let in.
"""
import sys

import handshake

count, port, lease, secret, worker = sys.argv[1:]
let_in = 0
for _ in range(int(count)):
    try:
        sock, *_ = handshake.opened(
            port, lease.encode(), bytes.fromhex(secret), handshake.LANE, int(worker)
        )
        sock.close()
        let_in += 1
    except (EOFError, ConnectionError):
        pass
print(let_in)
