#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a process reaches of its host's files and services, for t/t3519-host-files.t.

    host_files.py listen SOCKET...
        listens at these paths until it is killed
    host_files.py try SERVICE NVIDIA NAME FOLDER
        in place of a worker: tries the two sockets, and to leave a file NAME in FOLDER and in the
        host's folders; writes `found` into the worker's cache
"""

import ctypes
import json
import os
import socket
import sys
import time

KEYCTL, DESCRIBE, SESSION = 250, 6, -3  # keyctl(2)


def listen(paths):
    services = [socket.socket(socket.AF_UNIX) for _ in paths]
    for one, path in zip(services, paths):
        one.bind(path)
        os.chmod(path, 0o777)
        one.listen(8)
    time.sleep(600)


def answer(call, path):
    try:
        call(path)
        return 'done'
    except OSError as failure:
        return f'{type(failure).__name__} {failure.errno}'


def connect(path):
    socket.socket(socket.AF_UNIX).connect(path)


def leave(path):
    with open(path, 'w', encoding='utf-8') as file:
        file.write('left')


def session_key():
    text = ctypes.create_string_buffer(256)
    ctypes.CDLL(None).syscall(KEYCTL, DESCRIBE, SESSION, text, 256)
    return text.value.decode()


def try_all(service, nvidia, name, folder):
    cache = os.environ['RGPU_SOFTGPU_CACHE']
    os.makedirs(cache, exist_ok=True)
    found = {
        'service': answer(connect, service),
        'nvidia': answer(connect, nvidia),
        'left': [answer(leave, f'{d}/{name}') for d in ('/run/lock', '/run', folder, '/dev/shm')],
        'tmp': [answer(leave, f'{d}/{name}') for d in ('/tmp', '/var/tmp')],
        'sees': os.listdir('/tmp') + os.listdir('/var/tmp'),
        'cache': answer(leave, f'{cache}/left'),
        'keys': session_key(),
        'uid': os.getuid(),
    }
    with open(f'{cache}/found.new', 'w', encoding='utf-8') as file:
        json.dump(found, file)
    os.rename(file.name, f'{cache}/found')
    time.sleep(600)


if __name__ == '__main__':
    if sys.argv[1] == 'listen':
        listen(sys.argv[2:])
    else:
        try_all(*sys.argv[2:])
