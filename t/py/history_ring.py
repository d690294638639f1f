# SPDX-License-Identifier: Apache-2.0
"""history_ring.py FILE NUMBER...: a day of one series of rgpu web's history, with these numbers in
each minute but those of the last two hours (src/web/data/history.cc)."""
import struct
import sys
import time

path, numbers = sys.argv[1], [float(number) for number in sys.argv[2:]]
minutes = 24 * 60
now = int(time.time()) // 60
with open(path, "wb") as ring:
    ring.write(b"rgpu web's history of a day, version 1\n".ljust(64, b"\0"))
    for slot in range(minutes):
        minute = now - (now - slot) % minutes
        if minute > now - 120:
            minute = 0
        ring.write(struct.pack("<q8f", minute, *numbers))
