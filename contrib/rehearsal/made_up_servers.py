# SPDX-License-Identifier: Apache-2.0
"""Made-up servers for contrib/rehearse: the control API, with GPUs and leases that are not there.

One process stands for all: it answers at an address of 127/8 for each, and keeps account of what is
offered, granted and released.
"""

import asyncio
import json
import math
import os
import re
import socket
import threading
import time
import urllib.parse

GIB = 1 << 30
OFFER_HOLDS = 5  # seconds, as rgpud's


class Server:
    """What one rgpud would have: GPUs of 80 GiB, some held by others from the start."""

    def __init__(self, number, gpus, leases, jobs=True):
        self.name = f'gpu{number:04}'
        self.leases = {}
        self.offers = {}
        self.gpus = [
            {
                'index': i,
                'uuid': f'GPU-{number:08x}-0000-4000-8000-{i:012x}',
                'name': 'NVIDIA H100 80GB HBM3',
                'memory': 80 * GIB,
                'compute_capability': '9.0',
                'pci': f'0000:{i + 1:02x}:00.0',
                'free_share': 100,
                'free_memory': 80 * GIB,
                'drained': '',
                'fixed_addresses': True,
            }
            for i in range(gpus)
        ]
        # As many shares as fit on all GPUs but the last, which others may reserve.
        held = max(gpus - 1, 1)
        for i in range(leases):
            share = 100 // -(-leases // held)
            gpu = self.gpus[i * held // leases]
            owner = {'uid': 1000 + i, 'user': f'user{i}', 'node': f'cn{i:03}'}
            if jobs:
                owner['job'] = str(1000 + i)
            self.grant(f'{number:016x}{i:016x}', [self.part(gpu, share)], owner)
        self.text = None

    def part(self, gpu, share):
        memory = gpu['memory'] * share // 100
        return {
            **{key: gpu[key] for key in ('index', 'uuid', 'name')},
            'share': share,
            'most': share,
            'memory': memory,
        }

    def take(self, parts, sign):
        for part in parts:
            gpu = self.gpus[part['index']]
            gpu['free_share'] -= sign * part['share']
            gpu['free_memory'] -= sign * part['memory']
            if not 0 <= gpu['free_share'] <= 100:
                Servers.wrong.append(f'{self.name}: GPU {gpu["index"]}: {gpu["free_share"]} % free')
        self.text = None

    def grant(self, name, parts, owner, taken=False):
        if not taken:
            self.take(parts, 1)
        self.leases[name] = {
            'id': name,
            'secret': '0' * 64,
            'owner': owner,
            'gpus': parts,
            'term_ms': 0,
            'expires_in_ms': 0,
            'granted_at': 1790000000,
            'workers': 0,
        }
        self.text = None
        return self.leases[name]

    def release(self, name):
        self.take(self.leases.pop(name)['gpus'], -1)

    def leases_of(self, job, node):
        """Those of a job and, unless it is None, of its node."""
        return [
            lease
            for lease in list(self.leases.values())
            if lease['owner'].get('job') == job and node in (None, lease['owner'].get('node'))
        ]

    def inventory(self):
        if self.text is None:
            leases = [
                {key: value for key, value in lease.items() if key != 'secret'}
                for lease in self.leases.values()
            ]
            self.text = json.dumps(
                {
                    'name': self.name,
                    'version': '0.1.0',
                    'driver_version': 13000,
                    'driver_release': '580.65.06',
                    'software': False,
                    'data_port': 7711,
                    'gpus': self.gpus,
                    'leases': leases,
                }
            )
        return self.text

    def sharing(self):
        """Every lease uses its part of the GPU now more, now less."""
        tenants = {gpu['uuid']: [] for gpu in self.gpus}
        for lease in list(self.leases.values()):
            for part in lease['gpus']:
                seed = int(part['uuid'][4:12], 16) + 3 * part['index'] + len(tenants[part['uuid']])
                use = part['share'] / 100 * (0.5 + 0.5 * math.sin(seed + time.monotonic() / 5))
                tenants[part['uuid']].append(
                    {
                        'lease': lease['id'],
                        'owner': lease['owner'],
                        'least': part['share'],
                        'most': part['most'],
                        'weight': 1,
                        'workers': 1,
                        'running': use > 0.1,
                        'waiting': False,
                        'due': use,
                        'given_1s': use,
                        'given_10s': use,
                        'given_1min': use,
                        'given_s': 0,
                        'owed_s': 0,
                        'launches_per_s': 1000 * use,
                        'bytes_per_s': 0,
                        'longest_s': 0.01,
                        'running_s': 0,
                        'memory': part['memory'],
                        'memory_used': int(part['memory'] * (0.3 + 0.5 * use)),
                    }
                )
        gpus = [
            {**{k: gpu[k] for k in ('index', 'uuid')}, 'tenants': tenants[gpu['uuid']]}
            for gpu in self.gpus
        ]
        return json.dumps({'name': self.name, 'gpus': gpus})

    def checks(self):
        checks = [
            {
                'check': 'temperature',
                'of': f'GPU {gpu["index"]}',
                'verdict': 'PASS',
                'value': f'{40 + (100 - gpu["free_share"]) // 3} C',
                'limit': 'below 85 C',
                'cure': '',
            }
            for gpu in self.gpus
        ]
        return json.dumps({'name': self.name, 'age_ms': 0, 'checks': checks})

    def offer(self, request):
        for name, (parts, _, until) in list(self.offers.items()):
            if until < time.monotonic():
                del self.offers[name]
                self.take(parts, -1)
        share, wanted = request.get('share', 100), request['gpus']
        fits = [gpu for gpu in self.gpus if gpu['free_share'] >= share][:wanted]
        if len(fits) < wanted:
            return {'answer': 'later', 'reason': 'in use'}
        name = os.urandom(16).hex()
        parts = [self.part(gpu, share) for gpu in fits]
        self.take(parts, 1)
        self.offers[name] = (parts, request['owner'], time.monotonic() + OFFER_HOLDS)
        whole = sum(gpu['free_share'] == 100 for gpu in self.gpus)
        left = sum(gpu['free_share'] for gpu in self.gpus)
        return {
            'answer': 'now',
            'id': name,
            'expires_in_ms': 5000,
            'gpus': parts,
            'fit': {
                'whole_taken': wanted,
                'whole_left': whole,
                'share_left': left,
                'distance': 0,
                'load': 0,
            },
        }

    def answer(self, method, target, body):
        """(status, text)"""
        path, _, query = target.partition('?')
        parts = path.strip('/').split('/')
        if method == 'GET' and path == '/v1/inventory':
            return 200, self.inventory()
        if method == 'GET' and path in ('/v1/sharing', '/v1/checks'):
            return 200, self.sharing() if path == '/v1/sharing' else self.checks()
        if path == '/v1/leases':
            asked = dict(urllib.parse.parse_qsl(query))
            fits = self.leases_of(asked.get('job'), asked.get('node'))
            if method == 'GET':
                return 200, json.dumps({'data_port': 7711, 'leases': fits})
            if method == 'DELETE':
                for lease in fits:
                    self.release(lease['id'])
                return 200, json.dumps({'released': len(fits)})
        if method == 'POST' and path == '/v1/offers':
            return 200, json.dumps(self.offer(json.loads(body)))
        if method == 'POST' and parts[-1] == 'accept' and parts[2] in self.offers:
            held, owner, _ = self.offers.pop(parts[2])
            lease = self.grant(parts[2], held, owner, taken=True)
            return 200, json.dumps({'data_port': 7711, 'leases': [lease]})
        if method == 'DELETE' and parts[1:2] == ['offers'] and parts[2] in self.offers:
            self.take(self.offers.pop(parts[2])[0], -1)
            return 200, '{}'
        if method == 'DELETE' and parts[1:2] == ['leases'] and len(parts) == 3:
            if parts[2] in self.leases:
                self.release(parts[2])
                return 200, '{"released": 1}'
        text = f'{method} {target}: not rehearsed'
        return 404, json.dumps({'error': {'kind': 'unsupported', 'text': text}})


class Servers(threading.Thread):
    """All of them, in a thread: at 127.1.0.1, 127.1.0.2 ... with one port."""

    wrong = []

    def __init__(self, count, gpus, leases, jobs=True):
        super().__init__(daemon=True)
        self.at = {}
        for i in range(count):
            self.at[f'127.1.{i // 250}.{i % 250 + 1}'] = Server(i + 1, gpus, leases, jobs)
        self.asked = 0
        # All of 127/8, and nothing that comes from other hosts.
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b'lo')
        self.listener.bind(('0.0.0.0', 0))
        self.port = self.listener.getsockname()[1]
        self.loop = asyncio.new_event_loop()

    async def serve(self, reader, writer):
        server = self.at[writer.get_extra_info('sockname')[0]]
        try:
            while head := await reader.readuntil(b'\r\n\r\n'):
                method, target, _ = head.split(b'\r\n')[0].decode().split(' ')
                length = re.search(rb'(?i)content-length: *(\d+)', head)
                body = await reader.readexactly(int(length[1])) if length else b''
                status, text = server.answer(method, target, body)
                self.asked += 1
                data = text.encode()
                head = f'HTTP/1.1 {status} x\r\nContent-Type: application/json\r\n'
                writer.write(f'{head}Content-Length: {len(data)}\r\n\r\n'.encode() + data)
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        writer.close()

    def failed(self, loop, context):
        """Once: asyncio says it for each connection that it cannot take (too many open files)."""
        if not isinstance(context.get('exception'), OSError):
            loop.default_exception_handler(context)
        elif (text := f'the made-up servers: {context["exception"]}') not in Servers.wrong:
            Servers.wrong.append(text)

    def run(self):
        self.loop.set_exception_handler(self.failed)
        self.loop.run_until_complete(
            asyncio.start_server(self.serve, sock=self.listener, backlog=4096)
        )
        self.loop.run_forever()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))

    def conf(self):
        """The [[server]] lines of rgpu.conf."""
        return ''.join(
            f'[[server]]\nname = "{server.name}"\naddress = "{address}:{self.port}"\n'
            for address, server in self.at.items()
        )

    def stop(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.join()
        self.listener.close()
