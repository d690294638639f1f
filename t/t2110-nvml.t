#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# libnvidia-ml.so.1: programs that only look at GPUs see those of the lease, with the lease's
# memory.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
. "$(dirname "$0")/lib/python.sh"

library=$interpose/libnvidia-ml.so.1
[ -e "$library" ] || skip_all "$library is not there: no nvml.h (contrib/install-deps-debian.sh)"
header=$(ls "${cuda_libs%/*}/include/nvml.h" /usr/local/include/nvml.h \
    /usr/include/nvml.h 2> /dev/null | head -n 1)

# --- the table

exported=$(nm -D --defined-only "$library" | awk '{print $3}' | sort -u)
declared=$(printf '#define NVML_NO_UNVERSIONED_FUNC_DEFS\n#include "%s"\n' "$header" |
    g++ -E -P -xc++ - | grep -oE '\bnvml[A-Z]\w+ *\(' | tr -d '( ' | sort -u)
[ "$(wc -l <<< "$declared")" -gt 300 ] &&
    pass "nvml.h declares $(wc -l <<< "$declared") functions" || fail "nvml.h declares functions"
is "$(comm -23 <(echo "$declared") <(echo "$exported"))" "" "all are exported"
is "$(grep -v '^nvml' <<< "$exported")" "" "and nothing else"
is "$(readelf -d "$library" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p' |
    grep -vE '^(libc|libm|libdl|libpthread|ld-linux-x86-64)\.so' )" "" "it needs libc only"

# --- a lease

# a worker only where it is asked
rgpud gpu1 'softgpu_devices = 3' 'softgpu_memory = "512M"' 'warm = false'
rgpud_pid=$pid
clients "gpu1=$control"
remote() { try 60 "$build/bin/rgpu" run --wait 20s "$@"; }
workers() { workers_of "$rgpud_pid" | wc -l; }

LD_LIBRARY_PATH=$interpose try 20 python3 -c \
    'import ctypes; print(ctypes.CDLL("libnvidia-ml.so.1").nvmlInit_v2())'
is "$out" 9 "without a lease: NVML_ERROR_DRIVER_NOT_LOADED"

remote -n 2 -- python3 "$py/nvml_gpus.py"
is "$(wc -l <<< "$out")" 2 "two GPUs of three are there" || diag "$err"
is "$(awk '{print $1}' <<< "$out" | sort -u | wc -l)" 2 "with UUIDs of their own"
is "$(logged gpu1 'worker [0-9]+ for')" 0 "to count them asks no server"
remote -n 1 -- python3 "$py/nvml_gpus.py" memory
like "$out" ' 512 0$' "the memory of a whole GPU, nothing used" || diag "$err"
remote -n 1 --share 0.5 --memory 200M -- python3 "$py/nvml_gpus.py" memory
like "$out" ' 200 0$' "the lease's cap is the total" || diag "$err"

# What another program of the same lease holds.
remote -n 1 -- python3 "$py/nvml_beside_cuda.py"
like "$out" ' 512 (6[4-9]|7[0-9])$' "memory that another program of the lease holds is used" ||
    diag "$out$err"
remote -n 1 --share 0.5 --memory 200M -- python3 "$py/nvml_beside_cuda.py"
like "$out" ' 200 (6[4-9]|7[0-9])$' "under a cap, too" || diag "$out$err"
remote -n 1 -- python3 "$py/nvml_fork.py"
is "$rc" 0 "the child of a fork asks, too" || diag "$err"
no_worker() { [ "$(workers)" = 0 ]; }
ok "no worker is left" wait_for 5 no_worker

remote -n 1 -- python3 "$py/nvml_export_table.py"
is "$rc" 0 "what NVIDIA's own nvidia-smi asks for beyond nvml.h" || diag "$err"

# --- clients that nobody here wrote

smi=${RGPU_NVIDIA_SMI:-$(command -v nvidia-smi)}
if [ -n "$smi" ]; then
    remote -n 2 --memory 300M -- "$smi" --query-gpu=index,name,memory.total,memory.used \
        --format=csv,noheader
    is "$out" "0, rgpu software GPU, 300 MiB, 0 MiB
1, rgpu software GPU, 300 MiB, 0 MiB" "nvidia-smi: the leased GPUs with the lease's memory" ||
    diag "$err"
    remote -n 2 --memory 300M -- "$smi"
    is "$rc:$(grep -c '0MiB / *300MiB' <<< "$out")" 0:2 "... and without arguments" ||
        diag "$out$err"
    remote -n 2 -- "$smi" -q
    is "$rc" 0 "... and all that it knows" || diag "$out$err"
else
    skip "no nvidia-smi (Debian's is non-free; RGPU_NVIDIA_SMI names one)" 3
fi

if ! python_env nvml nvidia-ml-py==13.580.82 gpustat==1.1.1 nvitop==1.7.2; then
    skip "no nvidia-ml-py, gpustat, nvitop: $(tail -n 1 <<< "$err")" 6
    done_testing
    exit
fi
remote -n 2 --memory 256M -- "$python" "$py/pynvml_gpus.py"
is "$out" "rgpu software GPU 256 0 (8, 0) 256
rgpu software GPU 256 0 (8, 0) 256" "nvidia-ml-py" || diag "$err"
remote -n 2 -- "${python%/*}/gpustat" --no-color
is "$rc" 0 "gpustat" || diag "$out$err"
is "$(grep -cE 'rgpu software GPU .* 0 / +512 MB' <<< "$out")" 2 \
    "gpustat shows both GPUs and their memory" || diag "$out"
remote -n 2 -- "${python%/*}/nvitop" --once --no-unicode
is "$rc" 0 "nvitop" || diag "$out$err"
like "$out" "0B / 512\.0MiB" "nvitop shows the memory" || diag "$out"
remote -n 1 -- "$python" -c \
    'import nvitop; print(len(nvitop.Device.all()), nvitop.Device(0).memory_total() >> 20)'
is "$out" "1 512" "nvitop as a library" || diag "$err"
done_testing
