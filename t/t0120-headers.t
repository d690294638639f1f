#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the toolkit's headers make of a kernel: CUB, Thrust, libcu++, cooperative groups, half
# precision, on the software GPU; nvcc's PTX and NVRTC's.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/cuda.sh"

export RGPU_SOFTGPU_CACHE=$T/cache RGPU_SOFTGPU_HOST=$T/gpus RGPU_SOFTGPU_COMPUTE_CAPABILITY=9.0

runs()  # architecture, program, nvcc's flags
{
    local architecture=$1 name=$2
    shift 2
    if cuda_program "$root/t/cuda/libraries/$name.cu" \
        -gencode "arch=compute_$architecture,code=compute_$architecture" "$@"; then
        LD_LIBRARY_PATH=$softgpu:$cuda_libs try 120 "$program"
    fi
    is "$rc $out" "0 right" "$name for compute_$architecture" || diag "$err"
}

runs 80 cccl --extended-lambda

# Two objects, so that the device code is linked when the program is loaded.
separate=$root/t/cuda/libraries/separate.cu
for part in "" SECOND; do
    "$cuda_libs/../bin/nvcc" -std=c++17 -rdc=true ${part:+-D$part} \
        -gencode arch=compute_80,code=compute_80 -c -o "$T/part$part.o" "$separate"
done
try 120 "$cuda_libs/../bin/nvcc" -rdc=true -gencode arch=compute_80,code=compute_80 -o \
    "$T/separate" "$T/part.o" "$T/partSECOND.o"
LD_LIBRARY_PATH=$softgpu:$cuda_libs try 60 "$T/separate"
is "$rc $out" "0 right" "a program of two objects with relocatable device code" || diag "$err"

runs 75 groups
runs 90 groups
runs 80 half
runs 90 libcudacxx
runs 90 nvrtc -lnvrtc -lcuda "-L$cuda_libs/stubs" "-DTOOLKIT=\"$(realpath "$cuda_libs/..")\""
if [ -n "${RGPU_LONG:-}" ]; then
    runs 75 cccl --extended-lambda
    runs 90 cccl --extended-lambda
    runs 80 groups
    runs 90 half
    runs 75 libcudacxx
    runs 75 thrust --extended-lambda
fi
done_testing
