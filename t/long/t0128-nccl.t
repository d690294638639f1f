#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# NVIDIA's NCCL from PyPI on two software GPUs: its collectives in one process give the CPU's
# results, on the driver itself and through rgpu, and so does all-reduce of two processes. Of its
# 671 device functions those that are called are compiled.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/rgpud.sh"
. "$(dirname "$0")/../lib/python.sh"
. "$(dirname "$0")/../lib/nccl.sh"
real_nccl

# Without eth0's address, which a machine without a network lacks.
export NCCL_SOCKET_IFNAME=lo RGPU_SOFTGPU_CACHE=$T/cache
try 600 env LD_LIBRARY_PATH="$softgpu" RGPU_SOFTGPU_DEVICES=2 RGPU_SOFTGPU_HOST="$T/gpus" \
    RGPU_SOFTGPU_COMPUTE_CAPABILITY=13.0 \
    "$python" "$root/t/lib/nccl-collectives.py" "$nccl" few
is "$rc $(tail -n 1 <<< "$out")" "0 right" "collectives of two GPUs, directly" || diag "$out$err"
# Before functions were objects of their own, the first kernel's code was 826 MB of text.
is "$(find "$T/cache" -type f -size +1024k | wc -l)" 0 "no object is larger than 1 MiB"
objects=$(find "$T/cache" -type f -size +0 | wc -l)
ok "$objects of NCCL's kernels and functions were compiled" [ "$objects" -lt 40 ]

rgpud gpu1 'softgpu_devices = 2' 'softgpu_memory = "1G"' 'softgpu_compute_capability = "13.0"'
clients "gpu1=$control"
try 600 "$build/bin/rgpu" run -n 2 --wait 20s -- \
    "$python" "$root/t/lib/nccl-collectives.py" "$nccl" few
is "$rc $(tail -n 1 <<< "$out")" "0 right" "collectives of two leased GPUs" || diag "$out$err"
try 600 "$build/bin/rgpu" run -n 2 --wait 20s -- \
    "$python" "$root/t/lib/nccl-processes.py" "$nccl"
is "$rc $(tail -n 1 <<< "$out")" "0 right" "two processes with a leased GPU each" ||
    diag "$out$err"
done_testing
