#!/bin/bash
# PyTorch from PyPI shares tensors between processes of a job: torch.multiprocessing, with its
# expandable segments and without.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/rgpud.sh"
. "$(dirname "$0")/../lib/python.sh"

ls -d "$test_cache"/torch-* > /dev/null 2>&1 || [ -n "${RGPU_TEST_TORCH:-}" ] ||
    skip_all "RGPU_TEST_TORCH=1 lets it take PyTorch from PyPI, which is 3 GB"
python_env torch torch==2.15.0 numpy==2.4.6 ||
    skip_all "PyTorch cannot be had: $(tail -n 1 <<< "$err")"
rgpud gpu1 'softgpu_devices = 1' 'softgpu_memory = "1G"'
clients "gpu1=$control"
for how in "False plain" "True expandable"; do
    try 600 env PYTORCH_ALLOC_CONF="expandable_segments:${how% *}" PYTHONDONTWRITEBYTECODE=1 \
        "$build/bin/rgpu" run -n 1 --wait 20s -- "$python" -W ignore "$root/t/lib/torch-share.py"
    is "$rc $out" "0 ${how#* }
right" "a tensor of ${how#* } memory is read and written by a second process" || diag "$err"
done
done_testing
