#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tinygrad's operators on the software GPU against numpy: random shapes, types and values.
# RGPU_LONG=1: more of them.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/python.sh"

python_env tinygrad tinygrad==0.14.0 numpy==2.4.6 ml_dtypes==0.6.0 ||
    skip_all "tinygrad cannot be had: $(tail -n 1 <<< "$err")"
export LD_LIBRARY_PATH=$softgpu:$cuda_libs DEV=CUDA XDG_CACHE_HOME=$T/cache CACHELEVEL=0
export RGPU_SOFTGPU_CACHE=$T/kernels RGPU_SOFTGPU_HOST=$T/gpus
count=70
[ -z "${RGPU_LONG:-}" ] || count=1500
for seed in 1 $((RANDOM + 2)); do
    try 1500 "$python" -W ignore "$root/t/lib/tinygrad-operators.py" $seed $count
    is "$rc $(tail -n 1 <<< "$out")" "0 $count cases, 0 differ" "$count operators of seed $seed" ||
        diag "$out$err"
done
done_testing
