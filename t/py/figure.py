# SPDX-License-Identifier: Apache-2.0
"""figure.py NAME VALUE UNIT [KEY=VALUE...]: a figure of a benchmark, as a line of JSON."""
import json
import sys


def number(text):
    return float(text) if text.replace(".", "").replace("-", "").isdigit() else text


name, value, unit, *more = sys.argv[1:]
figure = {"name": name, "value": number(value), "unit": unit}
figure.update((key, number(text)) for key, text in (a.split("=", 1) for a in more))
print(json.dumps(figure))
