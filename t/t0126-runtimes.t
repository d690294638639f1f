#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# NVIDIA's CUDA runtimes from PyPI, 11.7 to 13.5: what each asks of a driver, private tables too,
# and a program of it on the software GPU itself and remotely. (t/lib/runtime.c)
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
. "$(dirname "$0")/lib/python.sh"

rgpud gpu1 'softgpu_devices = 2' 'softgpu_memory = "256M"'
clients "gpu1=$control"
export RGPU_SOFTGPU_CACHE=$T/cache RGPU_SOFTGPU_MEMORY=256M
ok "t/lib/runtime.c" cc -O1 -Wall -Wextra -Werror -o "$T/runtime" "$root/t/lib/runtime.c" -ldl

runtime()  # version, package
{
    python_wheel "$2==$1" || { skip "$2 $1: $(tail -n 1 <<< "$err")" 3; return; }
    local cudart
    cudart=$(find "$wheel" -name 'libcudart.so.*')
    try 60 env LD_LIBRARY_PATH="$softgpu" RGPU_SOFTGPU_HOST="$T/direct" "$T/runtime" "$cudart"
    is "$rc $out" "0 right, with CUDA $(cut -d. -f1-2 <<< "$1")" "$2 $1" || diag "$err"
    is "$err" "" "... asks for nothing that is not known"
    try 60 "$build/bin/rgpu" run --wait 20s -- "$T/runtime" "$cudart"
    is "$rc $out" "0 right, with CUDA $(cut -d. -f1-2 <<< "$1")" "... remotely" || diag "$err"
    unlike "$err" "is not known|NOT_SUPPORTED" "... nor there" || diag "$err"
}

for version in 11.7.99 11.8.89; do runtime $version nvidia-cuda-runtime-cu11; done
for version in 12.0.146 12.1.105 12.2.140 12.3.101 12.4.127 12.5.82 12.6.77 12.8.90 12.9.79; do
    runtime $version nvidia-cuda-runtime-cu12
done
for version in 13.0.96 13.1.80 13.2.86 13.3.29 13.4.92 13.5.37; do
    runtime $version nvidia-cuda-runtime
done
done_testing
