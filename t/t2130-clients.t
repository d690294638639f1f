#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Clients that nobody here wrote, from PyPI: what each computes remotely is what it computes on the
# software GPU itself.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
. "$(dirname "$0")/lib/python.sh"
. "$(dirname "$0")/lib/cuda.sh"

chmod 755 "$T"
rgpud gpu1 'softgpu_devices = 2' 'softgpu_memory = "1G"'
clients "gpu1=$control"
export XDG_CACHE_HOME=$T/cache RGPU_SOFTGPU_MEMORY=1G
export CUDA_PATH=${cuda_libs%/*} CUDA_HOME=${cuda_libs%/*} CUPY_CACHE_DIR=$T/cupy \
    CUPY_COMPILE_WITH_PTX=1
# its own CUB kernels are machine code for GPUs that the software GPU is not
export CUPY_ACCELERATORS=

# NAME, PROGRAM [VARIABLE=VALUE...]: the same words from both
same()
{
    local name=$1 program=$2 direct
    shift 2
    try 200 env "$@" LD_LIBRARY_PATH="$softgpu:$cuda_libs" RGPU_SOFTGPU_HOST="$T/direct" \
        RGPU_SOFTGPU_CACHE="$T/kernels" "$python" "$root/t/clients/$program.py"
    is "$rc" 0 "$name on the software GPU itself" || diag "$out" "$(tail -n 15 <<< "$err")"
    direct=$out
    try 200 env "$@" LD_LIBRARY_PATH="$cuda_libs" "$build/bin/rgpu" run --wait 20s -- "$python" \
        "$root/t/clients/$program.py"
    is "$rc" 0 "$name remotely" || diag "$out" "$(tail -n 15 <<< "$err")"
    is "$out" "$direct" "$name: the same results" || return 0
    note "$name: $direct"
}

# Missing packages are said once, with pip's own words.
packages()  # NAME, COUNT, PACKAGE...
{
    local name=$1 count=$2
    shift 2
    python_env "$name" "$@" && return
    skip "$*: $(tail -n 1 <<< "$err")" "$count"
    return 1
}

if packages numba 9 numba-cuda==0.30.4 numba==0.68.1 llvmlite==0.50.0 cuda-bindings==13.5.0 \
    cuda-core==1.2.2 numpy==2.4.6 pytest==9.2.0 pytest-timeout==2.4.0 filecheck==1.0.6 \
    psutil==7.2.2 cffi==2.1.1 ml_dtypes==0.6.0; then
    # numba wants to find this library, and does without it.
    mkdir "$T/linker"
    cc -shared -x c /dev/null -o "$T/linker/libnvJitLink.so.13" -Wl,-soname,libnvJitLink.so.13 ||
        bail "no C compiler"
    cuda_libs=$T/linker:$cuda_libs same "numba-cuda" numba_client
    same "cuda-bindings" bindings_client
    same "cuda-core" core_client
fi
if packages cupy 3 cupy-cuda13x==14.2.0; then
    same "cupy" cupy_client
fi
if packages tinygrad 6 tinygrad==0.14.0 numpy==2.4.6; then
    same "tinygrad, kernel by kernel" tinygrad_client JIT=2
    if grep -q '^NONE(cuGraphCreate,' "$root/src/calls/table/graph.def"; then
        skip "CUDA graphs do not go over the wire yet" 3
    else
        same "tinygrad with CUDA graphs" tinygrad_client JIT=1
    fi
fi

# cuFFT asks the driver for a private table, which is the interposer's own.
if [ -e "$cuda_libs/libcufft.so" ]; then
    cuda_program "$root/t/cuda/libraries/fft.cu" -gencode arch=compute_80,code=compute_80 -lcufft ||
        bail "$err"
    LD_LIBRARY_PATH=$cuda_libs try 200 "$build/bin/rgpu" run --wait 20s -- "$program" 2d
    is "$rc $out" "0 right" "cuFFT remotely" || diag "$err"
else
    skip "no cuFFT in $cuda_libs" 1
fi
done_testing
