#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What NCCL, XLA and monitors ask of NVML beyond memory and names, on software GPUs and on a made-up
# driver with an NVML of its own, whose answers come through.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
. "$(dirname "$0")/lib/python.sh"
library=$interpose/libnvidia-ml.so.1
[ -e "$library" ] || skip_all "$library is not there: no nvml.h (contrib/install-deps-debian.sh)"
# The same environment as t2110-nvml.t.
python_env nvml nvidia-ml-py==13.580.82 gpustat==1.1.1 nvitop==1.7.2 ||
    skip_all "no nvidia-ml-py: $(tail -n 1 <<< "$err")"

rgpud gpu1 'softgpu_devices = 3' 'softgpu_memory = "512M"'
first=$control
rgpud gpu2 'softgpu_devices = 2'
clients "gpu1=$first" "gpu2=$control"
remote() { try 60 "$build/bin/rgpu" run --wait 20s "$@"; }
ask() { remote "$@" -- "$python" "$py/nvml_breadth.py" questions; }

ask -n 2 --server gpu1
answers=$out
is "$rc" 0 "all questions are answered" || diag "$err"
of() { sed -n "s/^$1 //p" <<< "$answers"; }
is "$(of p2p | head -n 1)" 0 "two GPUs of a server are peers"
is "$(of 'p2p itself')" 0 "a GPU is its own"
is "$(of ancestor)" 40 "they have an ancestor in common"
is "$(of pcie)" "[4, 4, 16, 16]" "PCIe's generation and width"
is "$(of affinity)" True "all of the node's processors are near"
is "$(of mig)" "[0, 0]" "MIG is off"
is "$(of ecc)" "[0, 0]" "ECC is off"
is "$(of bar1)" "512 0" "BAR1"
is "$(of reasons)" 0 "nothing throttles"
is "$(of nvlink)" NotSupported "a GPU without NVLink has none"
is "$(of fields)" "[3, 3]" "field values are asked one by one"
is "$(of events):$(of wait)" "None:Timeout" "events can be waited for" || diag "$answers"
is "$(of state)" 0 "the highest performance state"
is "$(of set)" NoPermission "what changes a GPU is not permitted"
is "$(of virtual):$(of cores):$(of instance)" "0:True:NotFound" "and the rest"

ask -n 4 --span
answers=$out
is "$rc" 0 "GPUs of two servers" || diag "$err"
remote -n 4 --span -- "$python" -c 'import pynvml as n
n.nvmlInit()
a, b = n.nvmlDeviceGetHandleByIndex(0), n.nvmlDeviceGetHandleByIndex(3)
print(n.nvmlDeviceGetP2PStatus(a, b, 0), n.nvmlDeviceGetTopologyCommonAncestor(a, b))'
is "$out" "5 50" "of different servers are no peers, and farthest apart" || diag "$err"

remote -n 1 --server gpu1 -- "$python" "$py/nvml_breadth.py" all
is "$rc:$out" "0:" "no function that takes a handle is unknown" || diag "$err"
like "$err" 'asked [0-9]{2,} supported [0-9]{2,}' "of which there are some" || diag "$err"

# --- processes

hold='python3 "$0/hold_memory.py" $((64 << 20)) "$1/end" > "$1/pid" & until [ -s "$1/pid" ]; do
    sleep 0.05; done; "$2" -c "import pynvml as n; n.nvmlInit()
for p in n.nvmlDeviceGetComputeRunningProcesses(n.nvmlDeviceGetHandleByIndex(0)):
    print(p.pid, p.usedGpuMemory >> 20, n.nvmlSystemGetProcessName(p.pid))"; cat "$1/pid"; : > \
    "$1/end"; wait'
# shellcheck disable=SC2016
remote -n 1 --server gpu1 -- sh -c "$hold" "$py" "$T" "$python"
holder=$(tail -n 1 <<< "$out")
like "$(head -n 1 <<< "$out")" "^$holder (6[4-9]|7[0-9]) .*python3" \
    "a process of the lease, by its pid on the node and with its memory" || diag "$out$err"
is "$(wc -l <<< "$out")" 2 "and no other" || diag "$out"

# --- an NVML of NVIDIA's kind on the server

made=$T/made
mkdir "$made"
# The driver brings its NVML with it: the worker opens that by its name.
if g++ -shared -fPIC -O1 -Wl,-soname,libnvidia-ml.so.1 -o "$made/libnvidia-ml.so.1" \
    "$root/t/lib/told_nvml.cc" 2> "$T/g++.log" &&
    g++ -shared -fPIC -O1 -o "$made/libcuda.so.1" "$root/t/lib/told_driver.cc" -L"$made" \
        -Wl,--no-as-needed -l:libnvidia-ml.so.1 "-Wl,-rpath,\$ORIGIN" 2>> "$T/g++.log"; then
    rgpud told "driver = \"$made/libcuda.so.1\"" 'warm = false' 'confine_workers = false'
    clients "told=$control"
    remote -n 2 -- "$python" "$py/nvml_told.py"
    is "$rc:$out" "0:5 6
serial 1
short 7
[300, 301, 310, 311]
111
[1000, 1001, 1002]
[14, 42]
fan 0 1002
older fan 25
odd fan 25
link True 00000000:77:00.0
lost 15
absent 13
null 2 2" "a server's NVML is asked, and its answers come through" ||
        diag "$err$(tail "$T/told.log")"
else
    fail "a made-up driver is built" || diag "$(cat "$T/g++.log")"
fi
done_testing
