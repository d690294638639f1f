#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The software GPU's own libnvidia-ml.so.1, which answers without a server: NCCL does not begin
# without one.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/python.sh"

library=$softgpu/libnvidia-ml.so.1
ok "it stands beside libcuda.so.1" [ -e "$library" ]
is "$(nm -D --defined-only "$library" | awk '$3 ~ /^nvml/ {print $3}' | sort)" \
    "$(sed -nE 's/^(ANSWER|FORWARD|PAIR|DENIED|NONE)\((nvml\w+).*/\2/p' \
        "$root/src/calls/nvml.def" | sort)" "it has every function of the table"
is "$(readelf -d "$library" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p' |
    grep -vE '^(libc|libm|libdl|libstdc\+\+|libgcc_s|ld-linux-x86-64)\.so')" "" \
    "it needs no driver to be opened"

export LD_LIBRARY_PATH=$softgpu RGPU_SOFTGPU_DEVICES=2 RGPU_SOFTGPU_MEMORY=256M
export RGPU_SOFTGPU_HOST=$T/gpus
try 20 python3 "$root/t/py/softgpu_nvml.py" errors
is "$rc $out" "0 1 0 0 0 2 0 0 1
2 0
7 2 6 4" "errors are NVML's" || diag "$err"

python_env nvml nvidia-ml-py==13.580.82 gpustat==1.1.1 nvitop==1.7.2 || {
    skip "no nvidia-ml-py: $(tail -n 1 <<< "$err")" 3
    done_testing
    exit
}
try 60 "$python" "$root/t/py/pynvml_gpus.py"
is "$rc $out" "0 rgpu software GPU 256 0 (8, 0) 256
rgpu software GPU 256 0 (8, 0) 256" "nvidia-ml-py finds both GPUs by each of their names" ||
    diag "$err"
try 60 "$python" "$root/t/py/softgpu_nvml.py" peers
is "$rc $out" "0 [0, 0, 1]
16 13000
[0, 64]" "they are peers, without NVLink, and the memory in use is the driver's" || diag "$err"
try 60 "$python" "$root/t/py/nvml_breadth.py" all
is "$rc $out" "0 " "no function fails in a way that is not NVML's" || diag "$err"
done_testing
