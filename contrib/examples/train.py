#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small neural network to read 8x8 handwritten digits, on all the GPUs it is given.

    python3 train.py                          on a machine with a GPU
    srun --gres=rgpu:2 python3 train.py       on two remote ones: the same file, unchanged
    rgpu run -n 2 -- python3 train.py         the same, without Slurm

It uses tinygrad (https://github.com/tinygrad/tinygrad), which writes its CUDA kernels itself,
compiles them with NVRTC and talks to the driver alone. Every GPU gets its part of each batch and a
copy of the weights; after each step the gradients of all of them are added up. Exit status 0 means
that the network reads at least 95% of the test digits right.
"""

import argparse
import ctypes
import glob
import gzip
import os
import random
import sys
import time
from pathlib import Path

# tinygrad's settings are environment variables that it reads when it is imported.
os.environ.setdefault("DEV", "CUDA")
os.environ.setdefault("JIT", "2")  # replay the kernels one by one, without CUDA graphs
os.environ.setdefault("TRAINING", "1")  # optimisers refuse to work without
os.environ.setdefault(
    "PARALLEL", "0"
)  # compile the few kernels here, not in processes of their own

try:
    from tinygrad import Device, Tensor, TinyJit, nn
    from tinygrad.runtime.autogen import cuda
except ModuleNotFoundError:
    sys.exit(
        "train.py needs tinygrad: pip install -r contrib/examples/requirements.txt (or: make venv)"
    )

DIGITS = Path(__file__).with_name("digits.csv.gz")  # 1797 lines: 64 pixels of 0..16, then the digit
NEEDED = 0.95


def help_nvrtc():
    """NVRTC opens its second half by name. Where the linker does not know the toolkit's folder,
    open it before."""
    for folder in (os.environ.get("CUDA_PATH", "") + "/lib64", "/usr/local/cuda/lib64"):
        for half in sorted(glob.glob(folder + "/libnvrtc-builtins.so.[0-9]*"))[:1]:
            ctypes.CDLL(half)
            return


def gpu_names():
    """The names of the GPUs that the driver offers."""

    def check(status):
        if status != 0:
            sys.exit(f"train.py: the CUDA driver answered error {status}: is there a GPU?")

    try:
        check(cuda.cuInit(0))
    except AttributeError as e:
        sys.exit(
            "train.py: no CUDA driver (libcuda.so.1) in LD_LIBRARY_PATH or the system's folders: "
            f"{e}"
        )
    count = ctypes.c_int()
    check(cuda.cuDeviceGetCount(ctypes.byref(count)))
    names = []
    for i in range(count.value):
        device, name = ctypes.c_int(), ctypes.create_string_buffer(256)
        check(cuda.cuDeviceGet(ctypes.byref(device), i))
        check(cuda.cuDeviceGetName(name, len(name), device))
        names.append(name.value.decode())
    return names


def load_digits(seed):
    """[(64 pixels as bytes, digit)] in an order that depends on the seed: training and test
    part."""
    with gzip.open(DIGITS, "rt") as f:
        numbers = [[int(field) for field in line.split(",")] for line in f]
    digits = [(bytes(row[:64]), row[64]) for row in numbers]
    random.Random(seed).shuffle(digits)
    return digits[:1437], digits[1437:]


class Network:
    """64 pixels -> hidden -> hidden -> 10 digits."""

    def __init__(self, hidden):
        self.layers = [nn.Linear(64, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, 10)]

    def __call__(self, x):
        first, second, last = self.layers
        return last(second(first(x).relu()).relu())


def to_gpus(digits, devices):
    """Pixels and labels as tensors, cut into one part for each GPU."""
    # "PYTHON" is this process's memory. tinygrad's CPU device would do, too, but needs a clang.
    pixels = Tensor(b"".join(p for p, _ in digits), device="PYTHON").reshape(len(digits), 64)
    labels = Tensor(bytes(d for _, d in digits), device="PYTHON")
    return pixels.shard(devices, axis=0).realize(), labels.shard(devices, axis=0).realize()


class Progress:
    """A bar that redraws itself on a terminal, and a line an epoch in a log."""

    def __init__(self, steps):
        self.steps, self.done, self.live = steps, 0, sys.stdout.isatty()

    def step(self, text, epoch_ends):
        self.done += 1
        full = 30 * self.done // self.steps
        line = f"[{'#' * full}{'.' * (30 - full)}] {100 * self.done // self.steps:3d}%  {text}"
        if self.live:
            print("\r" + line, end="\n" if self.done == self.steps else "", flush=True)
        elif epoch_ends:
            print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description="Train a small network on 8x8 handwritten digits.")
    parser.add_argument("--gpus", type=int, help="how many GPUs to use [all]")
    parser.add_argument("--epochs", type=int, default=12, help="[%(default)s]")
    parser.add_argument(
        "--batch", type=int, default=120, help="digits in a step, all GPUs together [%(default)s]"
    )
    parser.add_argument(
        "--hidden", type=int, default=64, help="neurons in a hidden layer [%(default)s]"
    )
    parser.add_argument("--seed", type=int, default=2, help="[%(default)s]")
    options = parser.parse_args()

    start = time.monotonic()
    backend = Device.DEFAULT
    if backend == "CUDA":
        help_nvrtc()
        names = gpu_names()
    else:  # DEV=CPU and the like, to try the script itself
        names = [backend] * (options.gpus or 1)
    if options.gpus and options.gpus > len(names):
        sys.exit(f"train.py: --gpus={options.gpus}, but there are {len(names)} GPUs")
    names = names[: options.gpus]
    devices = tuple(f"{backend}:{i}" for i in range(len(names)))
    print(
        f"training on {len(devices)} GPU{'s' if len(devices) > 1 else ''}: "
        + ", ".join(f"{d} ({n})" for d, n in zip(devices, names)),
        flush=True,
    )

    Tensor.manual_seed(options.seed)
    batch = max(1, options.batch // len(devices)) * len(devices)
    training, test = load_digits(options.seed)
    test = test[: len(test) // len(devices) * len(devices)]
    network = Network(options.hidden)
    weights = nn.state.get_parameters(network)
    for weight in weights:
        weight.shard_(devices)
    optimizer = nn.optim.Adam(weights, lr=0.01)

    @TinyJit
    def train(pixels, labels):
        optimizer.zero_grad()
        loss = network(pixels.float() / 16).sparse_categorical_crossentropy(
            labels, label_smoothing=0.1
        )
        loss.backward()
        return loss.realize(*optimizer.schedule_step())

    test_pixels, test_labels = to_gpus(test, devices)

    def accuracy():
        right = network(test_pixels.float() / 16).argmax(axis=1) == test_labels
        return right.float().mean().to(devices[0]).item()

    order = random.Random(options.seed)
    steps = len(training) // batch
    progress = Progress(options.epochs * steps)
    for epoch in range(1, options.epochs + 1):
        order.shuffle(training)
        for step in range(steps):
            loss = train(*to_gpus(training[step * batch :][:batch], devices)).to(devices[0]).item()
            progress.step(f"epoch {epoch}/{options.epochs}  loss {loss:.3f}", step == steps - 1)

    reached = accuracy()
    print(
        f"test accuracy {100 * reached:.1f}% on {len(test)} digits it had not seen "
        f"({'enough' if reached >= NEEDED else 'too low'}: at least {100 * NEEDED:.0f}% is asked)"
    )
    print(
        f"{time.monotonic() - start:.1f} s on {len(devices)} GPU{'s' if len(devices) > 1 else ''}: "
        f"{', '.join(names)}"
    )
    return 0 if reached >= NEEDED else 1


if __name__ == "__main__":
    sys.exit(main())
