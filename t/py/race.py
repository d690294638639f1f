# SPDX-License-Identifier: Apache-2.0
"""race.py RGPU FOLDER SECONDS PROGRAM: forty clients at once ask for GPUs, and some of them are
killed.

Each runs PROGRAM FOLDER with what it got. Prints how many were started and killed."""
import os
import random
import signal
import subprocess
import sys
import time

rgpu, top, seconds, program = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]
random.seed(1)
end, running, started, killed = time.monotonic() + seconds, {}, 0, 0
while time.monotonic() < end:
    while len(running) < 40:
        # Some take GPUs of both servers, where neither has enough.
        n, span = random.choice(
            [
                (1, []),
                (1, []),
                (1, []),
                (2, []),
                (2, []),
                (4, []),
                (2, ["--span"]),
                (3, ["--span"]),
                (3, ["--span"]),
            ]
        )
        # A group of its own: a kill takes the client and its program, as the death of a host does.
        p = subprocess.Popen(
            [rgpu, "run", "-n", str(n), *span, "--wait", "60s", "--", sys.executable, program, top],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        running[p.pid] = p
        started += 1
    if random.random() < 0.2:
        os.killpg(random.choice(list(running)), signal.SIGKILL)
        killed += 1
    for pid in [pid for pid, p in running.items() if p.poll() is not None]:
        del running[pid]
    time.sleep(0.05)
for p in running.values():
    os.killpg(p.pid, signal.SIGTERM)
for p in running.values():
    p.wait()
print(started, killed)
