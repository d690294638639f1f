#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# PyTorch from PyPI shares tensors between processes of a job (torch.multiprocessing), with its
# expandable segments and without. The processes of its NCCL get each other's buffers.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/rgpud.sh"
. "$(dirname "$0")/../lib/python.sh"

ls -d "$test_cache"/torch-* > /dev/null 2>&1 || [ -n "${RGPU_TEST_TORCH:-}" ] ||
    skip_all "RGPU_TEST_TORCH=1 lets it take PyTorch from PyPI, which is 3 GB"
python_env torch torch==2.15.0 numpy==2.4.6 ||
    skip_all "PyTorch cannot be had: $(tail -n 1 <<< "$err")"
# All its code is machine code but that for the newest GPUs.
rgpud gpu1 'softgpu_devices = 2' 'softgpu_memory = "1G"' 'softgpu_compute_capability = "13.0"'
clients "gpu1=$control"
for how in "False plain" "True expandable"; do
    try 600 env PYTORCH_ALLOC_CONF="expandable_segments:${how% *}" PYTHONDONTWRITEBYTECODE=1 \
        "$build/bin/rgpu" run -n 1 --wait 20s -- "$python" -W ignore "$root/t/lib/torch-share.py"
    is "$rc $out" "0 ${how#* }
right" "a tensor of ${how#* } memory is read and written by a second process" || diag "$err"
done

try 300 env NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,P2P NCCL_RUNTIME_CONNECT=0 \
    PYTHONDONTWRITEBYTECODE=1 "$build/bin/rgpu" run -n 2 --wait 20s -- \
    "$python" -W ignore "$root/t/lib/nccl-share.py"
is "$rc $(tail -n 1 <<< "$out")" "0 right" "two processes join an NCCL communicator" ||
    diag "$(tail -n 40 <<< "$out")$err"
like "$out" "Imported shareable buffer device 0 .*" "... where each maps the other's buffers"
like "$out" "Imported shareable buffer device 1 .*" "... of both GPUs"
done_testing
