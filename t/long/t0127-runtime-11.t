#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What people install that brings a CUDA runtime of its own, from 11.0 on: CatBoost, CuPy for CUDA
# 11, 12 and 13, XGBoost, RMM; and what needs the driver alone: Dr.Jit, Taichi, Warp. Each computes
# remotely what it computes on the software GPU itself.
. "$(dirname "$0")/../lib/tap.sh"
. "$root/t/lib/rgpud.sh"
. "$root/t/lib/python.sh"

chmod 755 "$T"
export XDG_CACHE_HOME=$T/cache RGPU_SOFTGPU_MEMORY=4G RGPU_SOFTGPU_CACHE=$T/kernels
export CUPY_CACHE_DIR=$T/cupy CUPY_COMPILE_WITH_PTX=1 CUPY_ACCELERATORS=

# With this version of the driver XGBoost keeps pinned memory in memory of a NUMA node
# (cuMemCreate).
mkdir "$T/smi"
printf '#!/bin/sh\nprintf "driver_version\\n580.65.06\\n"\n' > "$T/smi/nvidia-smi"
chmod 755 "$T/smi" "$T/smi/nvidia-smi"

# NAME, CAPABILITY, PROGRAM, LIBRARIES, PACKAGE...
runs()
{
    local name=$1 capability=$2 program=$3 libraries=$4 site direct
    shift 4
    if ! python_env "$name" "$@"; then
        skip "$*: $(tail -n 1 <<< "$err")" 3
        return
    fi
    site=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    libraries=${libraries//@/$site/nvidia}
    export CUDA_PATH=$site/nvidia/cuda_runtime RGPU_SOFTGPU_COMPUTE_CAPABILITY=$capability
    [ -d "$CUDA_PATH" ] || CUDA_PATH=$site/nvidia/cu13
    try 1200 env LD_LIBRARY_PATH="$softgpu:$libraries" RGPU_SOFTGPU_HOST="$T/direct" \
        PATH="$T/smi:$PATH" "$python" "$root/t/clients/$program.py"
    is "$rc:$(grep -w False <<< "$out")" 0: "$name on the software GPU itself" ||
        diag "$out" "$(tail -n 15 <<< "$err")"
    direct=$out
    rgpud "$name" "softgpu_memory = \"4G\"" "softgpu_compute_capability = \"$capability\""
    clients "$name=$control"
    try 1200 env LD_LIBRARY_PATH="$libraries" "$build/bin/rgpu" run --wait 20s -- "$python" \
        "$root/t/clients/$program.py"
    is "$rc" 0 "$name remotely" || diag "$out" "$(tail -n 15 <<< "$err")"
    is "$out" "$direct" "$name: the same results" && note "$name: $direct"
}

runs cupy-cuda11x 8.0 cupy_client @/cuda_nvrtc/lib:@/cuda_runtime/lib cupy-cuda11x==13.6.0 \
    numpy==2.3.5 nvidia-cuda-nvrtc-cu11==11.8.89 nvidia-cuda-runtime-cu11==11.8.89
runs cupy-cuda12x 8.0 cupy_client @/cuda_nvrtc/lib:@/cuda_runtime/lib cupy-cuda12x==13.6.0 \
    numpy==2.3.5 nvidia-cuda-nvrtc-cu12==12.9.86 nvidia-cuda-runtime-cu12==12.9.79
runs cupy-cuda13x 8.0 cupy_client @/cu13/lib cupy-cuda13x==14.2.0 numpy==2.4.6 \
    nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-runtime==13.0.96
runs catboost 8.0 catboost_client "" catboost==1.2.10 numpy==2.3.5
runs rmm 13.0 rmm_client "" rmm-cu13==26.10.0 numpy==2.4.6
runs drjit 13.0 drjit_client "" drjit==1.5.0 numpy==2.4.6
runs taichi 13.0 taichi_client "" taichi==1.7.4 numpy==2.4.6
runs warp 13.0 warp_client "" warp-lang==1.10.1 numpy==2.4.6
runs xgboost 13.0 xgboost_client "" xgboost==3.2.0 numpy==2.4.6
try 600 env RGPU_TRACE=1 "$build/bin/rgpu" run --wait 20s -- "$python" \
    "$root/t/clients/xgboost_client.py"
like "$err" "cuMemCreate\\(.*CUDA_SUCCESS" "XGBoost keeps pinned memory in host memory of its own"
done_testing
