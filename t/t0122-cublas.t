#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# NVIDIA's cuBLAS on the software GPU: a device that claims compute capability 13.0, newer than all
# of its machine code, is given its PTX.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/cuda.sh"

[ -e "$cuda_libs/libcublas.so" ] || skip_all "no cuBLAS in $cuda_libs"
export RGPU_SOFTGPU_CACHE=$T/cache RGPU_SOFTGPU_HOST=$T/gpus RGPU_SOFTGPU_COMPUTE_CAPABILITY=13.0
cuda_program "$root/t/cuda/libraries/blas.cu" -gencode arch=compute_80,code=compute_80 -lcublas ||
    bail "$err"

for group in level1 gemv sgemm dgemm hgemm batched mixed; do
    LD_LIBRARY_PATH=$softgpu:$cuda_libs try 300 "$program" $group
    is "$rc $out" "0 right" "$group" || diag "$err"
done
done_testing
