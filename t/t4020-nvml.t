#!/bin/bash
# NVML inside a Slurm job: nvidia-ml-py sees exactly the leased GPUs, and --rgpu-mem as their total
# memory.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
. "$(dirname "$0")/lib/python.sh"
[ -e "$interpose/libnvidia-ml.so.1" ] || skip_all "no libnvidia-ml.so.1: no nvml.h (contrib/install-deps-debian.sh)"
# The same environment as t2110-nvml.t.
python_env nvml nvidia-ml-py==13.580.82 gpustat==1.1.1 nvitop==1.7.2 || skip_all "no nvidia-ml-py: $(tail -n 1 <<< "$err")"
cluster_up
unset RGPU_LEASE LD_LIBRARY_PATH

cat > "$T/look.py" <<'PY'
import json, os
from pynvml import *
nvmlInit()
seen = [(nvmlDeviceGetUUID(d), nvmlDeviceGetMemoryInfo(d).total >> 20, nvmlDeviceGetMemoryInfo(d).used >> 20)
        for d in map(nvmlDeviceGetHandleByIndex, range(nvmlDeviceGetCount()))]
leased = [g["uuid"] for s in json.load(open(os.environ["RGPU_LEASE"]))["servers"] for g in s["gpus"]]
assert [s[0] for s in seen] == leased, (seen, leased)
for uuid, total, used in seen:
    print(total, used)
PY
try 60 srun --gres=rgpu:1 --rgpu-mem=300M "$python" "$T/look.py"
is "$rc:$out" "0:300 0" "one GPU of four, and --rgpu-mem as its total" || diag "$err"
try 60 srun --gres=rgpu:2 "$python" "$T/look.py"
whole=$(rgpu list --json | python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)))' | grep -oE '"memory": [0-9]+' | sort -u | awk '{print $2 / 1048576}')
is "$rc:$out" "0:$whole 0
$whole 0" "two whole GPUs" || diag "$err"
try 60 srun --gres=rgpu:1 "${python%/*}/gpustat" --no-color
is "$rc:$(grep -c 'rgpu software GPU' <<< "$out")" 0:1 "gpustat" || diag "$out$err"
try 60 srun "$python" -c 'import pynvml
try: pynvml.nvmlInit()
except pynvml.NVMLError as e: print("none")'
is "$out" none "a job without GPUs sees none" || diag "$err"
done_testing
