#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each CUDA example, with static and with shared cudart, on remote GPUs through srun.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up
unset LD_LIBRARY_PATH RGPU_LEASE

for source in "$root"/contrib/examples/*.cu; do
    example=$(basename "$source" .cu)
    gpus=1
    [ "$example" = two_device_sum ] && gpus=2
    for cudart in static shared; do
        try 120 srun --gres=rgpu:$gpus "$build/cuda/$example-$cudart"
        is "$rc" 0 "$example, $cudart cudart, on $gpus remote GPU(s), exits 0" || diag "$out$err"
        like "$out" 'right: all [0-9]+ results' "and is right"
    done
done
like "$out" '.' "they print what they saw"
try 120 srun --gres=rgpu:2 "$build/cuda/two_device_sum-static"
like "$out" 'device 1: ' "two devices are two"

submitted --gres=rgpu:1 -o "$T/out" --wrap "exec $build/cuda/matmul_tiled-shared"
ok "a batch job ends well" wait_for 120 is_state "$job" COMPLETED
like "$(cat "$T/out")" 'right: all [0-9]+ results' "and is right"

try 120 srun -N 2 --gres=rgpu:1 "$build/cuda/vector_add-static"
is "$rc" 0 "two nodes with a GPU each, at once" || diag "$out$err"
is "$(grep -c 'right: all' <<< "$out")" 2 "both are right"
try 120 srun --gres=rgpu:1 --rgpu-share=50 "$build/cuda/vector_add-static"
is "$rc" 0 "half a GPU does" || diag "$out$err"
ok "everything is free" wait_for 5 all_free
done_testing
