#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# NVIDIA's cuRAND, cuDNN and cuFFT on the software GPU: a device that claims compute capability 13.0
# is given their PTX.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/cuda.sh"

export RGPU_SOFTGPU_CACHE=$T/cache RGPU_SOFTGPU_HOST=$T/gpus RGPU_SOFTGPU_COMPUTE_CAPABILITY=13.0

library()  # its name for the linker, program, groups
{
    local name=$1 source=$2 group
    shift 2
    if ! [ -e "$cuda_libs/lib$name.so" ] || ! [ -e "$cuda_libs/../include/$name.h" ]; then
        skip "no $name in $cuda_libs" $#
        return
    fi
    cuda_program "$root/t/cuda/libraries/$source.cu" -gencode arch=compute_80,code=compute_80 \
        "-l$name" || bail "$err"
    for group; do
        LD_LIBRARY_PATH=$softgpu:$cuda_libs try 200 "$program" "$group"
        is "$rc $out" "0 right" "$name: $group" || diag "$err"
    done
}

library curand rand uniform normal
library cufft fft c2c z2z r2c c2r 2d batched
library cudnn dnn softmax activation pooling norm convolution
done_testing
