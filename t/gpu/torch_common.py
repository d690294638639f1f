# SPDX-License-Identifier: Apache-2.0
"""What the PyTorch programs here begin with: deterministic, and exit status 77 where there is no
PyTorch with CUDA."""
import os
import sys

os.environ.setdefault('CUBLAS_WORKSPACE_CONFIG', ':4096:8')
try:
    import torch
except ImportError as e:
    print(e, file=sys.stderr)
    sys.exit(77)
if not torch.version.cuda or not torch.cuda.is_available():
    print('no PyTorch with CUDA', file=sys.stderr)
    sys.exit(77)
torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
torch.backends.cudnn.benchmark = False
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
device = torch.device('cuda')


def show(losses):
    """To the last bit."""
    print(' '.join(float(loss).hex() for loss in losses))
