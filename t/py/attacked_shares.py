#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The figures of t/bench/hostile.bench, as `make bench` wants them: one JSON object a line.

    attacked_shares.py FOLDER ROUNDS ATTACK:REFERENCE...

FOLDER has the shares of each kind of round: share.KIND, part.KIND and sync.KIND with a number for
each round. An attack is compared with the kind that is its reference.
"""

import json
import pathlib
import statistics
import sys

folder, rounds, attacks = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]


def median(which, kind):
    return statistics.median(map(float, (folder / f'{which}.{kind}').read_text().split()))


beside = {
    'busy': 'beside an honest, busy one',
    'spin': 'beside one that computes',
}
for attack, reference in (pair.split(':') for pair in attacks):
    for kind, name, bar in (
        ('share', 'time of two tenants', {'at_least_ratio': 0.95}),
        ('part', 'part of the one that is due a third of it', {}),
        ('sync', 'time of one that waits for each kernel', {'at_least_ratio': 0.95}),
    ):
        honest, attacked = median(reference, kind), median(attack, kind)
        figure = {
            'name': f'{attack}: {name}',
            'value': attacked,
            'unit': '%',
            'reference': beside[reference],
            'reference_value': honest,
            'ratio': attacked / honest,
            'also': f'medians of {rounds} rounds',
        }
        print(json.dumps(figure | bar))
