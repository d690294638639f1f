#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The small programs of t/cuda/features, each of which uses one feature of the driver and checks its
# own results, directly on the software GPU. (managed_memory, mapped_memory and ipc_processes need
# the device on the program's own host.)
. "$(dirname "$0")/lib/tap.sh"

export LD_LIBRARY_PATH=$softgpu:$cuda_libs
export RGPU_SOFTGPU_DEVICES=2 RGPU_SOFTGPU_CACHE=$T/cache RGPU_SOFTGPU_HOST=$T/gpus

for source in "$root"/t/cuda/features/*.cu "$root"/t/cuda/features/*/main.cu; do
    name=${source%/main.cu}
    name=$(basename "$name" .cu)
    capability=8.0
    [ "$name" = "${name%_sm90}" ] || capability=9.0
    RGPU_SOFTGPU_COMPUTE_CAPABILITY=$capability try 120 "$build/cuda/features/$name"
    is "$rc $(tail -n 1 <<< "$out")" "0 right" "$name" || diag "$out$err"
    case $name in
    peers) unlike "$out" "one device" "two devices are there" ;;
    prints)
        for i in 0 1 2 3; do
            like "$out" \
                "thread 1$i says (odd|even), +0\\.[0-9]{2}, [a-d], 0000beef, 1099511627776%" \
                "printf of thread $i"
        done
        line=$(grep -n 'values stay small' "$source" | cut -d: -f1)
        like "$err" \
            "prints.cu:$line: .*thread: \\[5,0,0\\] Assertion .*values stay small.* failed" \
            "assert says which"
        ;;
    misaligned) like "$err" "not aligned" "the log says what was misaligned" ;;
    clusters_sm90) like "$err" "wants clusters of 2 blocks" "the log says what was refused" ;;
    read_only_mapping) like "$err" "illegal address: the kernel writes to" \
        "the log says what was written to" ;;
    unknown_instruction) like "$err" \
        "PTX line [0-9]+: 'multimem.*does not know this instruction, in block" \
        "the log says which instruction" ;;
    function_table)
        for cache in "$T/late" "$T/late" off; do
            RGPU_SOFTGPU_CACHE=$cache try 120 "$build/cuda/features/$name"
            is "$rc $(tail -n 1 <<< "$out")" "0 right" "$name with the cache ${cache##*/}"
        done
        is "$(find "$T/late" -type f -size +0 | wc -l)" 5 \
            "the kernel and the four functions that it calls are objects, the other four are none"
        ;;
    esac
done
RGPU_SOFTGPU_STRICT=1 try 120 "$build/cuda/features/unknown_instruction"
like "$rc $err" "^1 .*'multimem.*does not know this instruction" \
    "RGPU_SOFTGPU_STRICT=1 refuses the module"

done_testing
