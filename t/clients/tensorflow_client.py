# SPDX-License-Identifier: Apache-2.0
"""TensorFlow: eager arithmetic, gradients, tf.function and XLA compute on the GPU what they compute
on the CPU, and a Keras network with convolutions and batch norm learns as it does there.
"""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'contrib/examples'))
import train_tensorflow

train_tensorflow.help_cusolver()

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '1')

import numpy as np
import tensorflow as tf

gpus = tf.config.list_logical_devices('GPU')
print('devices', len(gpus))
# Products of TF32 numbers have three digits.
tf.config.experimental.enable_tensor_float_32_execution(False)
tf.keras.utils.set_random_seed(5)
rng = np.random.default_rng(5)
x = rng.normal(size=(32, 24)).astype(np.float32)


def same(name, function):
    results = []
    for place in ('/GPU:0', '/CPU:0'):
        with tf.device(place):
            results.append([t.numpy() for t in tf.nest.flatten(function(tf.constant(x)))])
    print(name, all(np.allclose(g, c, rtol=1e-4, atol=1e-4) for g, c in zip(*results)))


def slopes(v):
    with tf.GradientTape() as tape:
        tape.watch(v)
        y = tf.reduce_sum(tf.nn.softmax(v @ tf.transpose(v)) ** 2)
    return y, tape.gradient(y, v)


def arithmetic(v):
    return tf.sin(v) * 2 + 1, v @ tf.transpose(v), tf.sort(v, axis=1), tf.reduce_max(v, axis=0)


same('eager', arithmetic)
same('gradients', slopes)
same('function', tf.function(slopes))
same('xla', tf.function(slopes, jit_compile=True))

# --- the network of contrib/examples

rounds = []
for place in ('/GPU:0', '/CPU:0'):
    tf.keras.utils.set_random_seed(5)
    with tf.device(place):
        model = train_tensorflow.network(tf.keras)
        digits = train_tensorflow.digits(np)
        rounds.append(model.fit(*digits, epochs=1, verbose=0, shuffle=False).history['loss'][0])
print('loss', np.isclose(*rounds, rtol=1e-3))
print('losses', rounds, file=sys.stderr)
