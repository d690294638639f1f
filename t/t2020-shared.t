#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Host memory that kernels touch: managed, mapped pinned and registered memory, and __managed__
# variables. The same programs directly on the software GPU, and on a remote one.
. "$(dirname "$0")/lib/tap.sh"
. "$root/t/lib/rgpud.sh"

export RGPU_SOFTGPU_CACHE=$T/cache RGPU_SOFTGPU_HOST=$T/gpus
mkdir "$RGPU_SOFTGPU_HOST"
rgpud gpu1 'softgpu_memory = "512M"' 'softgpu_devices = 2'
clients gpu1="$control"

direct() { try 120 env LD_LIBRARY_PATH="$softgpu:$cuda_libs" "$@"; }
remote()
{
    try 120 env LD_LIBRARY_PATH="$cuda_libs" "$build/bin/rgpu" run -n "$1" --wait 30s -- "${@:2}"
}

for program in shared_managed shared_mapped shared_variable shared_graph shared_values; do
    direct "$build/cuda/$program-static"
    is "$rc" 0 "$program, directly" || diag "$out$err"
    for cudart in static shared; do
        remote 1 "$build/cuda/$program-$cudart"
        is "$rc" 0 "$program, remotely, $cudart cudart" || diag "$out$err"
    done
    remote 1 env RGPU_SYNC=1 "$build/cuda/$program-static"
    is "$rc" 0 "$program, remotely, every call waits" || diag "$out$err"
done

remote 1 "$build/cuda/shared_managed-static" 8
is "$rc" 0 "shared_managed from eight threads, remotely" || diag "$out$err"

# --- what cannot work is said

remote 1 "$build/cuda/shared_spin-static"
is "$rc" 0 \
    "a program that looks at mapped memory and calls nothing is warned, one that calls is not" ||
    diag "$out$err"

# --- the cap on memory counts what is behind shared memory

try 120 env LD_LIBRARY_PATH="$cuda_libs" "$build/bin/rgpu" run -n 1 -m 64M --wait 30s -- \
    "$build/cuda/shared_managed-static" much
like "$out" "^([3-5][0-9]|6[0-4]) MiB of managed memory\$" \
    "a lease of 64 MiB gets no more managed memory" || diag "$out$err"

done_testing
