# SPDX-License-Identifier: Apache-2.0
"""sole_owner.py FOLDER: owns the GPUs of its lease for a moment, by a directory for each of them.

A file in FOLDER/double says that another program owned one at the same time."""
import json
import os
import random
import sys
import time

top = sys.argv[1]
gpus = [g["uuid"] for s in json.load(open(os.environ["RGPU_LEASE"]))["servers"] for g in s["gpus"]]
mine = f"{top}/gpus/.{os.getpid()}"
for gpu in gpus:
    # Made with its pid in it, and moved to its place at once: only an empty place can be taken.
    os.mkdir(f"{mine}.{gpu}")
    open(f"{mine}.{gpu}/pid", "w").write(str(os.getpid()))
    try:
        os.rename(f"{mine}.{gpu}", f"{top}/gpus/{gpu}")
        continue
    except OSError:
        pass
    try:
        owner = int(open(f"{top}/gpus/{gpu}/pid").read())
    except (FileNotFoundError, ValueError):
        owner = 0
    # A client that was killed left it; its program is dead.
    if (
        owner
        and os.path.exists(f"/proc/{owner}/exe")
        and "sole_owner.py" in open(f"/proc/{owner}/cmdline").read()
    ):
        open(f"{top}/double/{gpu}.{owner}.{os.getpid()}", "w")
    open(f"{top}/gpus/{gpu}/pid", "w").write(str(os.getpid()))
time.sleep(random.random() * 0.2)  # the program's work
for gpu in gpus:
    try:
        os.unlink(f"{top}/gpus/{gpu}/pid")
        os.rmdir(f"{top}/gpus/{gpu}")
    except OSError:
        pass  # its next owner is there
servers = len(json.load(open(os.environ["RGPU_LEASE"]))["servers"])
open(f"{top}/did/{os.getpid()}.{servers}", "w")
