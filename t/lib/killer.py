"""Kills workers that have a GPU's token:  killer.py RGPUD_PID CONTROL_PORT LEAST ROUNDS TIMES COMMAND...

Starts COMMAND again and again (a program whose lease promises LEAST hundredths, as no other does), waits until the server
says that its work runs, kills its worker with SIGKILL and writes the time down in the file TIMES. Prints how many it killed.
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


def children(pid):
    found = set()
    for task in os.listdir(f'/proc/{pid}/task'):
        with open(f'/proc/{pid}/task/{task}/children') as f:
            found.update(int(x) for x in f.read().split())
    return found


def runs(connection):
    connection.request('GET', '/v1/sharing')
    said = json.loads(connection.getresponse().read())
    return any(t['least'] == least and t['running'] for g in said['gpus'] for t in g['tenants'])


times = []
others = children(rgpud)
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
    victims = children(rgpud) - others
    for victim in victims:  # the program's, and the one that waits for the next
        os.kill(victim, signal.SIGKILL)
    if victims:
        times.append(time.time())
    program.wait(20)
    while children(rgpud) - others:
        time.sleep(0.005)
with open(times_path, 'w') as f:
    json.dump(times, f)
print(len(times))
