#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains one network on several GPUs, one for each process: data-parallel, over any number of
nodes, without NCCL.

    srun -N 2 --ntasks-per-node=2 --gres=rgpu:2 --rgpu-bind=single:1 python3 data_parallel.py
                                                               one GPU a task
    srun -N 2 --ntasks-per-node=1 --gres=rgpu:2 python3 launch.py --nproc-per-node=2 \\
        data_parallel.py                                       as torchrun does it: one task a node
                                                               starts a process for each GPU
    python3 data_parallel.py                                   one process, the same result

Every process has all the weights and takes its part of each batch. After each step the gradients
are averaged over TCP, and all take the same step: the network is that of one process with the whole
batch, but for the rounding.

Who they are comes from the environment: RANK, WORLD_SIZE and LOCAL_RANK where a launcher sets them,
else SLURM_PROCID, SLURM_NTASKS and SLURM_LOCALID. They meet at MASTER_ADDR:MASTER_PORT, unless set
the first node of the step and a port made from the job's number (data_parallel.sbatch shows how to
set them). It needs tinygrad, as train.py does.
"""

import argparse
import os
import random
import re
import socket
import struct
import sys
import time
from array import array

from train import help_nvrtc, load_digits  # sets tinygrad's environment
from tinygrad import Tensor, dtypes
from tinygrad.runtime.autogen import cuda

MEET_WITHIN = 300  # seconds from the first process's start to the last's


def variable(*names, otherwise=None):
    """The first of these environment variables that is set."""
    return next((os.environ[name] for name in names if os.environ.get(name)), otherwise)


def first_host(nodes):
    """The first of a list as Slurm writes it: "cn[03-07,9],login" begins with cn03."""
    match = re.match(r"([^,\[]+)(?:\[(\w+))?", nodes)
    return match[1] + (match[2] or "")


def meeting_place():
    job, step = int(variable("SLURM_JOB_ID", otherwise=0)), int(
        variable("SLURM_STEP_ID", otherwise=0)
    )
    return (
        variable("MASTER_ADDR")
        or first_host(variable("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", otherwise="localhost")),
        int(variable("MASTER_PORT", otherwise=20000 + (job * 16 + step) % 10000)),
    )


class Group:
    """The processes that train together. Rank 0 adds up what the others send, and sends back the
    sum: enough for some dozen."""

    def __init__(self, rank, size):
        self.rank, self.size, self.peers = rank, size, []
        if size == 1:
            return
        where = meeting_place()
        run = ".".join(
            variable(name, otherwise="") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID")
        ).encode()
        if rank == 0:
            self.meet(where, run)
        else:
            self.peers = [self.join(where)]
            self.send(self.peers[0], struct.pack("!I", rank) + run)

    def meet(self, where, run):
        # All interfaces, as the name may stand for another than the one that the other nodes see.
        with socket.create_server(
            ("127.0.0.1" if where[0] == "127.0.0.1" else "", where[1]), backlog=self.size
        ) as server:
            server.settimeout(MEET_WITHIN)
            come = {}
            while len(come) < self.size - 1:
                peer = server.accept()[0]
                peer.settimeout(MEET_WITHIN)
                hello = self.receive(peer)
                if hello[4:] != run:
                    sys.exit(
                        f"data_parallel.py: port {where[1]} was found by another job's process; "
                        "set MASTER_PORT"
                    )
                come[struct.unpack("!I", hello[:4])[0]] = peer
        self.peers = [come[rank] for rank in sorted(come)]

    @staticmethod
    def join(where):
        end = time.monotonic() + MEET_WITHIN
        while True:
            try:
                peer = socket.create_connection(where, timeout=MEET_WITHIN)
                break
            except OSError as e:  # rank 0 has not come so far
                if time.monotonic() > end:
                    sys.exit(f"data_parallel.py: rank 0 is not at {where[0]}:{where[1]}: {e}")
                time.sleep(0.1)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return peer

    @staticmethod
    def send(peer, data):
        peer.sendall(struct.pack("!I", len(data)) + data)

    @staticmethod
    def receive(peer):
        def exactly(size):
            data = bytearray()
            while len(data) < size:
                part = peer.recv(size - len(data))
                if not part:
                    sys.exit("data_parallel.py: another process has ended")
                data += part
            return bytes(data)

        return exactly(struct.unpack("!I", exactly(4))[0])

    def mean(self, values):
        """The mean over all processes, in the order of their ranks: the same bits everywhere."""
        if self.size == 1:
            return values
        if self.rank == 0:
            for peer in self.peers:
                values = array("d", (a + b for a, b in zip(values, array("d", self.receive(peer)))))
            values = array("d", (a / self.size for a in values))
            for peer in self.peers:
                self.send(peer, values.tobytes())
            return values
        self.send(self.peers[0], array("d", values).tobytes())
        return array("d", self.receive(self.peers[0]))


def this_gpu(local_rank):
    """Which of the GPUs that this process sees is its own, and that one's UUID. It sees one only
    under --rgpu-bind=single:1."""

    def check(status):
        if status != 0:
            sys.exit(f"data_parallel.py: the CUDA driver answered error {status}: is there a GPU?")

    import ctypes

    count, device, name = ctypes.c_int(), ctypes.c_int(), cuda.CUuuid()
    check(cuda.cuInit(0))
    check(cuda.cuDeviceGetCount(ctypes.byref(count)))
    place = local_rank % count.value
    check(cuda.cuDeviceGet(ctypes.byref(device), place))
    check(cuda.cuDeviceGetUuid_v2(ctypes.byref(name), device))
    h = bytes(ctypes.string_at(ctypes.addressof(name), 16)).hex()
    return place, f"GPU-{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


class Network:
    """64 pixels -> hidden -> 10 digits. The weights are the same in every process, whatever its
    GPU."""

    def __init__(self, hidden, seed, device):
        chance = random.Random(seed)

        def layer(inputs, outputs):
            bound = inputs**-0.5
            return [
                Tensor(
                    [
                        [chance.uniform(-bound, bound) for _ in range(outputs)]
                        for _ in range(inputs)
                    ],
                    device=device,
                ),
                Tensor([chance.uniform(-bound, bound) for _ in range(outputs)], device=device),
            ]

        self.weights = layer(64, hidden) + layer(hidden, 10)
        for weight in self.weights:
            weight.requires_grad = True

    def __call__(self, x):
        w1, b1, w2, b2 = self.weights
        return (x @ w1 + b1).relu() @ w2 + b2


def train_step(network, digits, rate, group, device):
    """One step on this process's part of the batch; returns the loss of the whole batch."""
    pixels = (
        Tensor(b"".join(p for p, _ in digits), dtype=dtypes.uint8, device="PYTHON")
        .reshape(len(digits), 64)
        .to(device)
    )
    labels = Tensor(bytes(d for _, d in digits), dtype=dtypes.uint8, device="PYTHON").to(device)
    loss = network(pixels.float() / 16).sparse_categorical_crossentropy(labels)
    for weight in network.weights:
        weight.grad = None
    loss.backward()
    grads = [weight.grad.flatten() for weight in network.weights]
    mine = Tensor.cat(loss.reshape(1), *grads).contiguous().data()
    mean = group.mean(array("d", mine))
    at = 1
    for weight in network.weights:
        part = array("f", mean[at : at + weight.numel()])
        at += weight.numel()
        step = (
            Tensor(part.tobytes(), dtype=dtypes.float32, device="PYTHON")
            .to(device)
            .reshape(weight.shape)
        )
        weight.assign((weight.detach() - rate * step)).realize()
    return mean[0]


def main():
    parser = argparse.ArgumentParser(
        description="Train a small network on 8x8 digits, one GPU for each process."
    )
    parser.add_argument("--steps", type=int, default=60, help="[%(default)s]")
    parser.add_argument(
        "--batch",
        type=int,
        default=240,
        help="digits in a step, all processes together [%(default)s]",
    )
    parser.add_argument(
        "--hidden", type=int, default=32, help="neurons in the hidden layer [%(default)s]"
    )
    parser.add_argument("--rate", type=float, default=1.0, help="learning rate [%(default)s]")
    parser.add_argument("--seed", type=int, default=2, help="[%(default)s]")
    options = parser.parse_args()

    rank, size = int(variable("RANK", "SLURM_PROCID", otherwise=0)), int(
        variable("WORLD_SIZE", "SLURM_NTASKS", otherwise=1)
    )
    if options.batch % size:
        sys.exit(f"data_parallel.py: --batch={options.batch} cannot be divided by {size} processes")
    help_nvrtc()
    place, uuid = this_gpu(int(variable("LOCAL_RANK", "SLURM_LOCALID", otherwise=0)))
    device = f"CUDA:{place}" if place else "CUDA"
    print(
        f"rank {rank} of {size} on "
        f"{variable('SLURMD_NODENAME', otherwise=socket.gethostname())}: {device} {uuid}",
        flush=True,
    )

    group = Group(rank, size)
    training, _ = load_digits(options.seed)
    network = Network(options.hidden, options.seed, device)
    part = options.batch // size
    order = random.Random(options.seed)
    for step in range(1, options.steps + 1):
        batch = order.sample(training, options.batch)  # the same in every process
        loss = train_step(
            network, batch[rank * part : (rank + 1) * part], options.rate, group, device
        )
        if rank == 0 and (step % 10 == 0 or step == options.steps):
            print(f"step {step}  loss {loss:.6f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
