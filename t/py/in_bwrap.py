# SPDX-License-Identifier: Apache-2.0
"""in_bwrap.py ROOTFS FSTAB|PARTS_JSON ENVIRON COMMAND...: what enroot does with these files, by
bubblewrap."""
import json
import os
import sys

rootfs, fstab, environ = sys.argv[1:4]
arguments = [
    "bwrap",
    "--bind",
    rootfs,
    "/",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    "/run",
    "--clearenv",
]
if fstab.endswith(".json"):
    what = json.load(open(fstab))
    for place in what["tmpfs"]:
        arguments += ["--tmpfs", place]
    for mount in what["mounts"]:
        arguments += ["--ro-bind", mount["source"], mount["destination"]]
    variables = {"PATH": "/bin", **what["environment"]}
else:
    for line in open(fstab):
        source, place, kind, options = line.split()
        arguments += ["--tmpfs", place] if kind == "tmpfs" else ["--ro-bind", source, place]
    variables = dict(line.rstrip("\n").split("=", 1) for line in open(environ))
for name, value in variables.items():
    arguments += ["--setenv", name, value]
os.execvp("bwrap", arguments + sys.argv[4:])
