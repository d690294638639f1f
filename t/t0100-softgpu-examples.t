#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each CUDA example, static and shared cudart, and train.py, directly on the software GPU.
. "$(dirname "$0")/lib/tap.sh"

export LD_LIBRARY_PATH=$softgpu:$cuda_libs
export RGPU_SOFTGPU_DEVICES=2 RGPU_SOFTGPU_CACHE=$T/cache RGPU_SOFTGPU_HOST=$T/gpus
examples=(vector_add matmul_tiled warp_reduce streams two_device_sum)
plan $((2 * 2 * ${#examples[@]} + 8))

for example in "${examples[@]}"; do
    for cudart in static shared; do
        try 120 "$build/cuda/$example-$cudart"
        is "$rc" 0 "$example, $cudart cudart, exits 0" || diag "$out$err"
        like "$out" "right: all [0-9]+ results" "and is right"
    done
done

try 120 "$build/cuda/two_device_sum-static"
like "$out" "device 1: " "two devices are two"
RGPU_SOFTGPU_DEVICES=1 try 120 "$build/cuda/two_device_sum-static"
is "$rc" 0 "two_device_sum works on one device"
like "$out" "one GPU only" "and says so"

# A kernel found in the cache is not compiled again: the compiler is not even loaded.
try 60 env LD_DEBUG=files "$build/cuda/vector_add-static"
unlike "$err" "librgpu-ptx" "the second run needs no compiler"

try 300 "$build/venv/bin/python" "$root/contrib/examples/train.py" --epochs 6
is "$rc" 0 "train.py on two devices exits 0" || diag "$out$err"
like "$out" "training on 2 GPUs" "it uses both"
like "$out" "test accuracy 9[5-9]" "and learns to read"
JIT=1 try 300 "$build/venv/bin/python" "$root/contrib/examples/train.py" --epochs 6
like "$rc $out" "^0.*test accuracy 9[5-9]" "and learns to read with CUDA graphs" || diag "$out$err"
