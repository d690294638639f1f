# SPDX-License-Identifier: Apache-2.0
"""Weight, part due (percent) and seconds given of the two tenants of a GPU, from rgpu top --json.

Prints nothing before both run."""
import json
import sys

gpus = [
    g["tenants"]
    for s in json.load(sys.stdin)["servers"]
    for g in s["gpus"]
    if len(g["tenants"]) == 2
]
for tenants in gpus:
    high, other = sorted(tenants, key=lambda t: -t["weight"])
    if min(high["given_1s"], other["given_1s"]) > 0.05:
        print(
            high["weight"],
            other["weight"],
            round(100 * high["due"]),
            round(100 * other["due"]),
            high["given_s"],
            other["given_s"],
        )
