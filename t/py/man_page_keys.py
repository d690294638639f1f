# SPDX-License-Identifier: Apache-2.0
"""man_page_keys.py KEYS_JSON PAGE: says which keys and defaults of rgpu.conf the man page lacks or
has wrong."""
import json
import re
import sys

keys = {k["key"]: k.get("value") for k in json.load(open(sys.argv[1]))["keys"]}
table, told = "", {}
for line in open(sys.argv[2]):
    if m := re.match(r"\.SS \[+(\w+)\]+", line):
        table = m[1]
    if m := re.match(r"\\fB(\w+)\\fR = (.*)", line):
        told[f"{table}.{m[1]}"] = m[2]
for key, value in keys.items():
    if key not in told:
        print("missing:", key)
    elif value is not None and not re.fullmatch(
        re.sub(r"@\w+@", "[^\"]*", re.sub(r"([\[\].])", r"\\\1", told[key])), value
    ):
        print("wrong default:", key, told[key], "is", value)
for key in told.keys() - keys.keys():
    print("no such key:", key)
print(len(keys) > 25)
