#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a convolutional network of Keras to read 8x8 handwritten digits, on all the GPUs it is
given.

    python3 train_tensorflow.py                          on a machine with a GPU
    srun --gres=rgpu:2 python3 train_tensorflow.py       on two remote ones: the same file, unchanged

It needs TensorFlow (pip install -r requirements-tensorflow.txt). Exit status 0 means that the network reads
at least 95% of the test digits right.
"""

import argparse
import ctypes
import importlib.util
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

DIGITS = Path(__file__).with_name("digits.csv.gz")  # 1797 lines: 64 pixels of 0..16, then the digit
TRAINED, NEEDED = 1437, 0.95


def help_cusolver():
    """TensorFlow 2.21 looks into the folders of all NVIDIA's packages but this one."""
    nvidia = importlib.util.find_spec("nvidia")
    for folder in nvidia.submodule_search_locations if nvidia else ():
        for library in Path(folder).glob("cusolver/lib/libcusolver.so.*"):
            ctypes.CDLL(str(library))


def digits(np):
    table = np.loadtxt(DIGITS, delimiter=",", dtype=np.float32)
    np.random.default_rng(5).shuffle(table)
    return table[:, :64].reshape(-1, 8, 8, 1) / 16, table[:, 64].astype(int)


def network(keras):
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((8, 8, 1)),
            layers.Conv2D(16, 3, padding="same", use_bias=False),
            layers.BatchNormalization(momentum=0.9),
            layers.ReLU(),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(3e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=False,
    )
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--epochs", type=int, default=12)
    epochs = parser.parse_args().epochs
    help_cusolver()
    import numpy as np
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        sys.exit("train_tensorflow.py: TensorFlow finds no GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
        print("GPU", tf.config.experimental.get_device_details(gpu)["device_name"], flush=True)
    tf.keras.utils.set_random_seed(5)
    images, labels = digits(np)

    # What TensorFlow takes by itself is NCCL, whose kernels wait for threads of this machine.
    copies = tf.distribute.HierarchicalCopyAllReduce()
    with tf.distribute.MirroredStrategy(cross_device_ops=copies).scope():
        model = network(tf.keras)
    started = time.monotonic()
    model.fit(images[:TRAINED], labels[:TRAINED], epochs=epochs, batch_size=64, verbose=2)
    _, right = model.evaluate(images[TRAINED:], labels[TRAINED:], verbose=0)
    print(
        f"{len(gpus)} GPU{'s' * (len(gpus) > 1)}, {time.monotonic() - started:.0f} s: "
        f"{right:.1%} of {len(images) - TRAINED} test digits right"
    )
    return 0 if right >= NEEDED else 1


if __name__ == "__main__":
    sys.exit(main())
