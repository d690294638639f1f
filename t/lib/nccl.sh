# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For tests with NVIDIA's own NCCL:
# . "$(dirname "$0")/../lib/nccl.sh"  (after tap.sh and python.sh)
#
#   real_nccl   sets $nccl to a libnccl.so.2 for CUDA 13, and $python to a Python with numpy: the
#               library that RGPU_NCCL_LIBRARY names or the CUDA Toolkit has, or PyPI's. Skips the
#               whole test where there is none.

real_nccl()
{
    nccl=${RGPU_NCCL_LIBRARY:-$(ls /usr/local/cuda*/lib/libnccl.so.2 2> /dev/null | head -n 1)}
    if [ -n "$nccl" ]; then
        python_env numpy numpy==2.4.6
    else
        ls -d "$test_cache"/nccl-* > /dev/null 2>&1 || [ -n "${RGPU_TEST_NCCL:-}" ] ||
            skip_all "RGPU_TEST_NCCL=1 lets it take NCCL from PyPI, which is 300 MB"
        python_env nccl nvidia-nccl-cu13==2.28.9 numpy==2.4.6
    fi || skip_all "NCCL or numpy cannot be had: $(tail -n 1 <<< "$err")"
    [ -n "$nccl" ] ||
        nccl=$(echo "${python%/bin/python}"/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2)
}
