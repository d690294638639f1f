# SPDX-License-Identifier: Apache-2.0
"""XGBoost trains trees on the GPU; they predict as those of the CPU do."""
import numpy as np
import xgboost

rng = np.random.default_rng(7)
x = rng.normal(size=(2000, 6)).astype(np.float32)
y = 3 * x[:, 0] + np.sin(3 * x[:, 1]) + x[:, 2] * x[:, 3]


def error(device):
    data = xgboost.DMatrix(x, y)
    parameters = {'max_depth': 4, 'eta': 0.2, 'device': device, 'tree_method': 'hist', 'seed': 1}
    model = xgboost.train(parameters, data, num_boost_round=20)
    return float(np.sqrt(np.mean((model.predict(data) - y) ** 2)))


gpu, cpu = error('cuda'), error('cpu')
assert gpu < 0.8 * float(np.std(y)) and abs(gpu - cpu) < 0.02 * cpu, (gpu, cpu)
print('%.4f' % gpu)
