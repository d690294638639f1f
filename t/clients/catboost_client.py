# SPDX-License-Identifier: Apache-2.0
"""CatBoost, whose CUDA runtime is 11, trains trees on the GPU.

Its histograms count on the lockstep of a warp, which the software GPU does not have: trees are
worse there than the CPU's, and are not compared with them.
"""
import numpy as np
from catboost import CatBoostRegressor

rng = np.random.default_rng(7)
x = rng.normal(size=(2000, 6)).astype(np.float32)
y = 3 * x[:, 0] + np.sin(3 * x[:, 1]) + x[:, 2] * x[:, 3]


def error():
    model = CatBoostRegressor(
        iterations=40,
        depth=4,
        learning_rate=0.2,
        task_type='GPU',
        devices='0',
        random_seed=1,
        bootstrap_type='No',
        boosting_type='Plain',
        gpu_ram_part=0.2,
        verbose=False,
        allow_writing_files=False,
    )
    model.fit(x, y)
    return float(np.sqrt(np.mean((model.predict(x) - y) ** 2)))


gpu = error()
assert gpu < 0.5 * float(np.std(y)), gpu
print('%.4f' % gpu)
