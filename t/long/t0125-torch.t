#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# PyTorch from PyPI on the software GPU: networks train with torch.compile, on cuBLAS, cuDNN and
# Triton.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/python.sh"

ls -d "$test_cache"/torch-* > /dev/null 2>&1 || [ -n "${RGPU_TEST_TORCH:-}" ] ||
    skip_all "RGPU_TEST_TORCH=1 lets it take PyTorch from PyPI, which is 3 GB"
python_env torch torch==2.15.0 numpy==2.4.6 ||
    skip_all "PyTorch cannot be had: $(tail -n 1 <<< "$err")"
export LD_LIBRARY_PATH=$softgpu PYTHONPATH=$root/contrib PYTHONDONTWRITEBYTECODE=1
export RGPU_SOFTGPU_CACHE=$T/cache RGPU_SOFTGPU_HOST=$T/gpus RGPU_SOFTGPU_COMPUTE_CAPABILITY=13.0
export TRITON_CACHE_DIR=$T/triton TORCHINDUCTOR_CACHE_DIR=$T/inductor \
    TORCHINDUCTOR_COMPILE_THREADS=1
for network in linear convolution; do
    try 1200 "$python" -W ignore "$root/t/lib/torch-train.py" $network
    is "$rc $(tail -n 1 <<< "$out")" "0 right" "a $network network learns as it does on the CPU" ||
        diag "$out$err"
done
# What doc/softgpu.md says of PyTorch's own kernels.
try 300 "$python" -W ignore -c 'import torch; torch.ones(4).cuda() + 1'
like "$err" "no kernel image is available" \
    "a kernel of PyTorch's own is refused: it comes as machine code only"
done_testing
