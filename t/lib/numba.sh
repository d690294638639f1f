# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the tests of numba-cuda's own suite have in common: numba_suite [MODULE...] passes or fails
# one test for each. After tap.sh and python.sh.

# numba asks nvJitLink for machine code, which the device cannot run. Where it finds a library of
# that name without functions it takes the driver's linker.
numba_suite()
{
    python_env numba numba-cuda==0.30.4 numba==0.68.1 llvmlite==0.50.0 cuda-bindings==13.5.0 \
        cuda-core==1.2.2 \
        numpy==2.4.6 pytest==9.2.0 pytest-timeout==2.4.0 filecheck==1.0.6 psutil==7.2.2 \
        cffi==2.1.1 ml_dtypes==0.6.0 ||
        skip_all "numba-cuda cannot be had: $(tail -n 1 <<< "$err")"
    mkdir "$T/linker"
    cc -shared -x c /dev/null -o "$T/linker/libnvJitLink.so.13" -Wl,-soname,libnvJitLink.so.13 ||
        bail "no C compiler"
    export LD_LIBRARY_PATH=$T/linker:$softgpu:$cuda_libs CUDA_HOME=$cuda_libs/..
    export RGPU_SOFTGPU_CACHE=$T/cache RGPU_SOFTGPU_HOST=$T/gpus
    local line
    while read -r line; do
        case $line in
        1..*) plan "${line#1..}" ;;
        ok*) pass "${line#* - }" ;;
        not*) fail "${line#* - }" ;;
        *) note "${line#\# }" ;;
        esac
    done < <(exec "$python" "$root/t/lib/numba-suite.py" "$root/t/lib/numba-known-failures.txt" \
        "$@")
}
