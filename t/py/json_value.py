# SPDX-License-Identifier: Apache-2.0
"""json_value.py [--true] EXPRESSION [ARGUMENT...]: the value of a Python expression over JSON.

The JSON comes on stdin and is `j` in the expression, the arguments are `a`. A list is printed as
words. --true prints nothing: it exits 0 if the value is true, otherwise 1.

    rgpu list --json | json_value.py 'sum(len(s["gpus"]) for s in j["servers"])'
"""
import json
import sys

true = sys.argv[1] == "--true"
expression, *arguments = sys.argv[2 if true else 1 :]
# In brackets it may go on in further lines.
value = eval(f"({expression}\n)", {"j": json.load(sys.stdin), "a": arguments})
if true:
    sys.exit(not value)
print(*value) if isinstance(value, list) else print(value)
