# SPDX-License-Identifier: Apache-2.0
"""Kills workers that have a GPU's token.

    killer.py RGPUD_PID CONTROL_PORT LEAST ROUNDS TIMES COMMAND...

Starts COMMAND again and again (a program whose lease promises LEAST hundredths, as no other does),
waits until the server says that its work runs, kills its worker with SIGKILL and writes the time
down in the file TIMES. Prints how many it killed.
"""
import http.client
import json
import os
import signal
import subprocess
import sys
import time

rgpud, port, least, rounds = (int(x) for x in sys.argv[1:5])
times_path, command = sys.argv[5], sys.argv[6:]


def state_dir():
    with open(f'/proc/{rgpud}/cmdline', 'rb') as f:
        words = f.read().split(b'\0')
    with open(words[words.index(b'--config') + 1]) as f:
        return next(line.split('"')[1] for line in f if line.startswith('state_dir'))


def workers():
    """Those of this rgpud: they say in their environment which state_dir they are of. It may not be
    their parent."""
    found = set()
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/comm') as comm, open(f'/proc/{pid}/environ', 'rb') as environ:
                if comm.read().startswith('rgpu-worker') and mark in environ.read():
                    found.add(int(pid))
        except OSError:
            pass  # it has ended
    return found


def runs(connection):
    connection.request('GET', '/v1/sharing')
    said = json.loads(connection.getresponse().read())
    return any(t['least'] == least and t['running'] for g in said['gpus'] for t in g['tenants'])


times = []
mark = f'RGPU_SOFTGPU_HOST={state_dir()}/softgpu'.encode()
others = workers()
for _ in range(rounds):
    program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    limit = time.time() + 20
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=5)
    while time.time() < limit and program.poll() is None:
        try:
            if runs(connection):
                break
        except (http.client.HTTPException, OSError):
            connection.close()
        time.sleep(0.002)
    victims = workers() - others
    for victim in victims:  # the program's, and the one that waits for the next
        os.kill(victim, signal.SIGKILL)
    if victims:
        times.append(time.time())
    program.wait(20)
    while workers() - others:
        time.sleep(0.005)
with open(times_path, 'w') as f:
    json.dump(times, f)
print(len(times))
