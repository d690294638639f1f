# SPDX-License-Identifier: Apache-2.0
"""connection_figures.py PATH CONNECTIONS SIZE REFERENCE GB_PER_S: figures of both ways from
stats.json, a line of JSON each."""
import json
import sys

path, n, size, reference, rate = sys.argv[1:]
stats = json.load(open("stats.json"))
for way, call in ("to device", "cuMemcpyHtoD_v2"), ("to host", "cuMemcpyDtoH_v2"):
    value = int(size) * 1.048576e-3 / (stats["by_name"][call]["ms"] * 1e-3)
    print(
        json.dumps(
            {
                "name": f"{path}.{way}.{n}",
                "value": value,
                "unit": "GB/s",
                "reference": reference,
                "reference_value": float(rate),
                "ratio": value / float(rate),
            }
        ),
        flush=True,
    )
