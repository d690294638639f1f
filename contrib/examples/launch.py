#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts a process for each GPU of a node, as torchrun does: one task on each node runs this.

    srun -N 2 --ntasks-per-node=1 --gres=rgpu:2 python3 launch.py --nproc-per-node=2
    data_parallel.py ARGUMENT...

Each process gets RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE, sees all GPUs of its node, and
is to take the one with the number LOCAL_RANK. Ends with the first status that is not 0, and then
ends the others. torchrun itself in its place needs nothing more:

    srun ... torchrun --nnodes=2 --nproc-per-node=2 --rdzv-backend=c10d
    --rdzv-endpoint=$MASTER_ADDR:$MASTER_PORT train.py
"""

import argparse
import os
import signal
import subprocess
import sys


def main():
    parser = argparse.ArgumentParser(description="Start a process for each GPU of this node.")
    parser.add_argument(
        "--nproc-per-node", type=int, required=True, metavar="N", help="GPUs of each node"
    )
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()

    here, each = int(os.environ.get("SLURM_NODEID", 0)), options.nproc_per_node
    world = each * int(os.environ.get("SLURM_STEP_NUM_NODES", os.environ.get("SLURM_NNODES", 1)))
    processes = [
        subprocess.Popen(
            [sys.executable, options.script, *options.arguments],
            env=os.environ
            | {
                "RANK": str(here * each + local),
                "WORLD_SIZE": str(world),
                "LOCAL_RANK": str(local),
                "LOCAL_WORLD_SIZE": str(each),
            },
        )
        for local in range(each)
    ]

    def end_all(*_):
        for process in processes:
            process.terminate()

    signal.signal(signal.SIGTERM, end_all)

    status, left = 0, {process.pid: process for process in processes}
    while left:
        pid, ended = os.wait()
        if process := left.pop(pid, None):
            process.returncode = os.waitstatus_to_exitcode(ended)
            if process.returncode and not status:
                status = process.returncode if process.returncode > 0 else 128 - process.returncode
                end_all()
    return status


if __name__ == "__main__":
    sys.exit(main())
