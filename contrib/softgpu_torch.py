# SPDX-License-Identifier: Apache-2.0
"""Lets torch.compile work on the software GPU: import it before anything is compiled.

PyTorch's own kernels come as machine code only. Those that Triton makes for torch.compile are PTX
until ptxas has been at them: so softgpu-ptxas stands in for it. cuBLAS and cuDNN give their PTX to
a device of compute capability 13.0, which Triton does not know: it is told of 8.0.
"""
import os
import pathlib

_ptxas = str(pathlib.Path(__file__).resolve().with_name("softgpu-ptxas"))
os.environ.setdefault("TRITON_PTXAS_PATH", _ptxas)
os.environ.setdefault("TRITON_PTXAS_BLACKWELL_PATH", _ptxas)

import torch._inductor.config  # noqa: E402
from torch._dynamo.device_interface import CudaInterface  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.backends.nvidia.driver import CudaDriver  # noqa: E402

CudaDriver.get_current_target = lambda self: GPUTarget("cuda", 80, 32)
CudaInterface.get_compute_capability = staticmethod(lambda device=None: 80)
# It would fold constants with PyTorch's own kernels.
torch._inductor.config.joint_graph_constant_folding = False
