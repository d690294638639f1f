# SPDX-License-Identifier: Apache-2.0
"""alone_rounds.py BUILD MODE MICROSECONDS CONF_WITH CONF_WITHOUT: what turns cost one tenant alone.

Runs the same tenant with and without turns, 25 times in turn, and prints the medians as JSON."""
import json
import os
import re
import statistics
import subprocess
import sys

build, mode, us = sys.argv[1:4]
confs = sys.argv[4:6]
rounds = []
for n in range(25):
    rate = [0, 0]
    for i in (0, 1) if n % 2 else (1, 0):
        out = subprocess.run(
            [
                f'{build}/bin/rgpu',
                'run',
                '--',
                f'{build}/cuda/tenant-static',
                f'mode={mode}',
                f'us={us}',
                'seconds=0.7',
            ],
            env={**os.environ, 'RGPU_CONF': confs[i]},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        kernels, seconds = re.match(r'(\d+) kernels in ([\d.]+) s', out).groups()
        rate[i] = int(kernels) / float(seconds)
    rounds.append(rate)
cost = sorted(100 * (1 - with_ / without) for with_, without in rounds)
print(
    json.dumps(
        {
            'with': statistics.median(r[0] for r in rounds),
            'without': statistics.median(r[1] for r in rounds),
            'cost': statistics.median(cost),
            'quarters': [round(c, 2) for c in statistics.quantiles(cost, n=4)],
        }
    )
)
