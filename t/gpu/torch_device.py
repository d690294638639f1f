# SPDX-License-Identifier: Apache-2.0
"""PyTorch sees the leased GPUs, by NVML and by the driver. Exit status 77: no PyTorch here."""
import os
import sys

try:
    import torch
except ImportError as e:
    print(e, file=sys.stderr)
    sys.exit(77)
os.environ['PYTORCH_NVML_BASED_CUDA_CHECK'] = '1'
if not torch.version.cuda:
    print('this PyTorch has no CUDA', file=sys.stderr)
    sys.exit(77)
print(torch.cuda.is_available(), torch.cuda.device_count())
for i in range(torch.cuda.device_count()):
    p = torch.cuda.get_device_properties(i)
    print(p.name, p.total_memory, p.major, p.minor, p.multi_processor_count)
