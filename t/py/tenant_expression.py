# SPDX-License-Identifier: Apache-2.0
"""tenant_expression.py JSON EXPRESSION: the value of a Python expression over what t/lib/tenant.py
prints."""
import json
import sys


class Tenant(dict):
    __getattr__ = dict.__getitem__


names = {k: Tenant(v) if isinstance(v, dict) else v for k, v in json.loads(sys.argv[1]).items()}
value = eval(f"({sys.argv[2]}\n)", names)
print(round(value, 2) if isinstance(value, float) else value)
