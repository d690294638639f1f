# SPDX-License-Identifier: Apache-2.0
"""setup_random_lines.py RGPU OWN_LINES FOLDER: rgpu slurm setup with files of random lines.

Each run ends well or with a sentence, and --undo leaves the file as it was."""
import os
import random
import subprocess
import sys

rgpu, own, folder = sys.argv[1:]
r = random.Random(4060)
parts = [
    b"NodeName=n1",
    b"Gres=gpu:1",
    b"GresTypes=",
    b"gpu,mps",
    b"Licenses=a:1",
    b"include x.conf",
    b"\\",
    b"\n",
    b"\r\n",
    b"#",
    b" ",
    b"\"",
    b"=",
    b"JobSubmitPlugins=rgpu,lua",
    b"PluginDir=/usr",
    b"NodeName=DEFAULT",
    b"\0",
    b"\xff",
    b"PrologFlags=X",
    b"Licenses=rgpu|b",
]
counts = {}
for n in range(25):
    os.makedirs(f"{folder}/{n}")
    conf = f"{folder}/{n}/slurm.conf"
    text = b"".join(
        r.choice(parts) if r.random() < 0.9 else r.randbytes(4) for _ in range(r.randrange(60))
    )
    open(conf, "wb").write(text)

    def setup(*more):
        done = subprocess.run(
            [rgpu, "slurm", "setup", "--conf", conf, "--lines", own, "--licences", "400", *more],
            capture_output=True,
            timeout=60,
        )
        return done.returncode, done.stderr

    status, told = setup("--apply")
    counts[status] = counts.get(status, 0) + 1
    if status not in (0, 4) and not (status == 1 and told.startswith(b"rgpu: ")):
        print(n, "apply", status, told)
    if status == 0:
        if (again := setup("--apply")[0]) != 0:
            print(n, "apply again", again)
        if (undo := setup("--undo"))[0] != 0:
            print(n, "undo", undo)
    if open(conf, "rb").read() != text or os.listdir(f"{folder}/{n}") != ["slurm.conf"]:
        print(n, "is not as it was", os.listdir(f"{folder}/{n}"))
print(counts.get(0, 0) >= 5)
