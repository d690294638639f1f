#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# NVML inside a Slurm job: nvidia-ml-py sees exactly the leased GPUs, and --rgpu-mem as their total
# memory.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
. "$(dirname "$0")/lib/python.sh"
[ -e "$interpose/libnvidia-ml.so.1" ] ||
    skip_all "no libnvidia-ml.so.1: no nvml.h (contrib/install-deps-debian.sh)"
# The same environment as t2110-nvml.t.
python_env nvml nvidia-ml-py==13.580.82 gpustat==1.1.1 nvitop==1.7.2 ||
    skip_all "no nvidia-ml-py: $(tail -n 1 <<< "$err")"
cluster_up
unset RGPU_LEASE LD_LIBRARY_PATH

try 60 srun --gres=rgpu:1 --rgpu-mem=300M "$python" "$py/nvml_of_lease.py"
is "$rc:$out" "0:300 0" "one GPU of four, and --rgpu-mem as its total" || diag "$err"
try 60 srun --gres=rgpu:2 "$python" "$py/nvml_of_lease.py"
whole=$(rgpu list --json |
    json_value 'list({g["memory"] >> 20 for s in j["servers"] for g in s["gpus"]})')
is "$rc:$out" "0:$whole 0
$whole 0" "two whole GPUs" || diag "$err"
try 60 srun --gres=rgpu:1 "${python%/*}/gpustat" --no-color
is "$rc:$(grep -c 'rgpu software GPU' <<< "$out")" 0:1 "gpustat" || diag "$out$err"
try 60 srun "$python" -c 'import pynvml
try: pynvml.nvmlInit()
except pynvml.NVMLError as e: print("none")'
is "$out" none "a job without GPUs sees none" || diag "$err"
done_testing
