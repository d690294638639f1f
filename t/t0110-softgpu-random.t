#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Random functions, compiled by nvcc for the software GPU and by g++ for the host: the same bits.
# Seed 399881035 asked for the sign of 0/0 once, which is nobody's to say.
. "$(dirname "$0")/lib/tap.sh"

export LD_LIBRARY_PATH=$softgpu:$cuda_libs
export RGPU_SOFTGPU_CACHE=$T/cache RGPU_SOFTGPU_HOST=$T/gpus
seeds=(1 399881035 "$((RANDOM * 32768 + RANDOM))")
plan ${#seeds[@]}

for seed in "${seeds[@]}"; do
    python3 "$root/t/lib/random-cuda.py" "$seed" 40 >"$T/random.cu"
    # No contraction to fma on either side: both round every operation.
    try 300 "$cuda_libs/../bin/nvcc" -std=c++17 -O2 -fmad=false -Xcompiler -ffp-contract=off \
        -gencode arch=compute_80,code=compute_80 -o "$T/random" "$T/random.cu"
    [ "$rc" = 0 ] || diag "$err"
    ok "40 functions of seed $seed give the host's bits" timeout 120 "$T/random"
done
