# SPDX-License-Identifier: Apache-2.0
"""What benches of a call's cost share: a driver that does nothing under the worker, loopback,
client and server each on a processor of its own.

Needs the folder of drvbench, rawtcp and nulldrv: RGPU_SHARED_BENCH, or ../shared/bench beside the
clone. found() says so where it is not there, and ends without figures."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

root = pathlib.Path(__file__).resolve().parents[2]
build = pathlib.Path(os.environ["RGPU_BUILD"])
source = pathlib.Path(os.environ.get("RGPU_SHARED_BENCH", root.parent / "shared/bench"))
name = pathlib.Path(sys.argv[0]).stem


def found(dir):
    """The processors of client and server, and a copy of the folder, built below `dir`."""
    if not (source / "drvbench.c").exists():
        print(
            f"{name}: {source} has no drvbench.c; name its folder with RGPU_SHARED_BENCH",
            file=sys.stderr,
        )
        sys.exit(0)
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) < 2:
        print(f"{name}: needs two processors, one for each side", file=sys.stderr)
        sys.exit(0)
    dir.chmod(0o755)
    bench = dir / "bench"
    shutil.copytree(source, bench, ignore=shutil.ignore_patterns("build", "runs"))
    made = subprocess.run(["make", "-C", bench], capture_output=True, text=True)
    if made.returncode:
        sys.exit(f"{name}: {source} does not build: {made.stderr}")
    return str(processors[0]), str(processors[1]), bench


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def figures(text):
    """Lines of name, value, unit, as drvbench and rawtcp print them."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if line.startswith("check.") and words[-1] == "WRONG":
            sys.exit(f"{name}: {line}")
        if len(words) == 3 and not line.startswith(("#", "check.")):
            found[words[0]] = float(words[1])
    return found


def through_rgpu(bench, dir, processors, transport, command, encrypt=None):
    """What the command prints whose libcuda.so.1 is ours, over that transport. `encrypt`: whether
    the connection is encrypted; None: as the default has it, so not on one host."""
    client, server = processors
    control, data = free_port(), free_port()
    dir.chmod(0o755)  # rgpud is not root
    conf = dir / "rgpu.conf"
    conf.write_text(
        f"""
[[server]]
name = "bench"
address = "127.0.0.1:{control}"
[auth]
method = "none"
[rgpud]
name = "bench"
listen = "127.0.0.1"
control_port = {control}
data_port = {data}
driver = "{bench}/nulldrv/build/libcuda.so.1"
worker = "{build}/libexec/rgpu-worker"
worker_user = "{os.environ.get('USER') or 'root'}"
state_dir = "{dir}/state-{control}"
transport = "{'ucx' if transport == 'ucx' else 'auto'}"
encrypt = {'"auto"' if encrypt is None else str(encrypt).lower()}
[client]
interposer_dir = "{build}/lib/interpose"
library_path = []
"""
    )
    env = dict(
        os.environ,
        RGPU_CONF=str(conf),
        RGPU_TRANSPORT=transport,
        RGPU_UCX_TLS="tcp",
        RGPU_UCX_NET_DEVICES="lo",
    )
    rgpu = build / "bin/rgpu"
    with open(dir / "rgpud.log", "w") as log:
        daemon = subprocess.Popen(
            ["taskset", "-c", server, build / "sbin/rgpud", "--config", conf],
            stdout=log,
            stderr=log,
            env=env,
        )
    try:
        end = time.monotonic() + 20
        while subprocess.run([rgpu, "list"], env=env, capture_output=True).returncode:
            if daemon.poll() is not None or time.monotonic() > end:
                sys.exit(f"{name}: rgpud does not serve: " + (dir / "rgpud.log").read_text())
        lease = dir / f"lease-{control}"
        subprocess.run(
            [rgpu, "request", "-n", "1", "-o", lease], env=env, check=True, stdout=subprocess.PIPE
        )
        # As when Slurm makes the lease: the worker has its context before the program comes.
        run = subprocess.run(
            [
                rgpu,
                "run",
                "--lease",
                lease,
                "--",
                "sh",
                "-c",
                f"sleep 1; exec taskset -c {client} {command}",
            ],
            env=env,
            stdout=subprocess.PIPE,
            text=True,
            timeout=300,
        )
        if run.returncode:
            sys.exit(f"{name}: {command} ended with {run.returncode}")
        return figures(run.stdout)
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait()
