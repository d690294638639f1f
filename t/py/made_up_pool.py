# SPDX-License-Identifier: Apache-2.0
"""made_up_pool.py ROOT CONF SERVERS GPUS LEASES: a pool of contrib/rehearsal's made-up servers,
for as long as it runs. Writes its rgpu.conf, and "ready" when that is there."""
import resource
import signal
import sys

root, conf = sys.argv[1:3]
sys.path.insert(0, f'{root}/contrib/rehearsal')
import made_up_servers  # noqa: E402

most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
servers = made_up_servers.Servers(*map(int, sys.argv[3:6]))
# One is drained in part, one holds names that are no names.
first, second = list(servers.at.values())[:2]
first.gpus[-1]['drained'] = 'new fans'
owner = {'uid': 4242, 'user': '<img src=x onerror=window.pwned=1>', 'node': '<b>cn</b>'}
second.grant('f' * 32, [second.part(second.gpus[-1], 100)], {**owner, 'job': '"><script>'})
servers.start()
with open(conf, 'w', encoding='utf-8') as file:
    file.write('[auth]\nmethod = "none"\n' + servers.conf())
print('ready', flush=True)
signal.sigwait({signal.SIGTERM})
servers.stop()
