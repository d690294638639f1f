#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nvidia-smi of ours: the leased GPUs as NVIDIA's own shows GPUs, by its names, and with its exit
# statuses.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
smi=$build/lib/smi/nvidia-smi
[ -x "$smi" ] || skip_all "$smi is not there: no nvml.h (contrib/install-deps-debian.sh)"

rgpud gpu1 'softgpu_devices = 3' 'softgpu_memory = "512M"'
clients "gpu1=$control"
remote() { try 60 "$build/bin/rgpu" run --wait 20s -n 2 --share 0.5 --memory 300M -- "$@"; }
gpu='rgpu software GPU'

# shellcheck disable=SC2016 # the job's shell
remote sh -c 'command -v nvidia-smi'
like "$out" 'nvidia-smi$' "it is in PATH" || diag "$err"
remote nvidia-smi -L
like "$rc:$out" "^0:GPU 0: $gpu \(UUID: GPU-[0-9a-f-]{36}\)
GPU 1: $gpu \(UUID: GPU-[0-9a-f-]{36}\)$" "-L" || diag "$err"

# --- the table

remote nvidia-smi
is "$rc" 0 "without arguments" || diag "$err"
table=$(tail -n +2 <<< "$out")
is "$(grep -v '^ ' <<< "$table" | awk '{print length}' | sort -u)" 91 "all lines are of one width"
is "$(grep -cE '0MiB / +300MiB \| +N/A +Default \|' <<< "$table")" 2 \
    "each GPU has the lease's memory" || diag "$out"
like "$table" 'Driver Version: [0-9.]+ +CUDA Version: 13\.0 +\|' "versions" || diag "$out"
like "$table" 'No running processes found' "nobody uses them"
like "$table" '\|   0  rgpu software GPU +On  \|   00007[0-9A-F]{3}:01:00\.0 Off \|' \
    "name, persistence and address stand where NVIDIA's do" || diag "$out"

# --- queries

query() { remote nvidia-smi "--query-gpu=$1" "--format=$2"; }
query index,name,memory.total,memory.used,pcie.link.gen.max,power.draw csv
names='index, name, memory.total [MiB], memory.used [MiB], pcie.link.gen.max, power.draw [W]'
is "$rc:$out" "0:$names
0, $gpu, 300 MiB, 0 MiB, 4, [N/A]
1, $gpu, 300 MiB, 0 MiB, 4, [N/A]" "--query-gpu" || diag "$err"
query index,memory.total,utilization.gpu,pstate csv,noheader,nounits
is "$rc:$out" "0:0, 300, [N/A], P0
1, 300, [N/A], P0" "noheader, nounits" || diag "$err"
query gpu_name,clocks.max.sm,mig.mode.current,compute_cap csv,noheader
is "$(head -n 1 <<< "$out" | sed 's/, [1-9][0-9]* MHz/, MHz/')" "$gpu, MHz, Disabled, 8.0" \
    "other names, and units" || diag "$out$err"
query nonsense csv
like "$rc:$err" '^2:(.*
)?Field "nonsense" is not a valid field to query\.$' "a field that there is not"
try 20 "$smi" --help-query-gpu
fields=$(grep -oE '^"[^"]*"' <<< "$out" | tr -d '"' | paste -sd,)
query "$fields" csv
is "$rc:$(head -n 1 <<< "$out" | tr , '\n' | wc -l)" "0:$(tr , '\n' <<< "$fields" | wc -l)" \
    "all of $(tr , '\n' <<< "$fields" | wc -l) fields" || diag "$err"

# What other processes of the lease hold.
# shellcheck disable=SC2016
remote sh -c 'python3 "$0/hold_memory.py" $((64 << 20)) "$1/end" > "$1/pid" &
until [ -s "$1/pid" ]; do sleep 0.05; done
nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader; nvidia-smi -i 0
nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits
cat "$1/pid"; : > "$1/end"; wait' \
    "$py" "$T"
holder=$(tail -n 1 <<< "$out")
like "$(head -n 1 <<< "$out")" "^$holder, .*python3, (6[4-9]|7[0-9]) MiB$" \
    "--query-compute-apps: a process of the lease with its memory" || diag "$out$err"
like "$out" "\|    0   N/A  N/A +$holder      C   .* (6[4-9]|7[0-9])MiB \|" \
    "the table has it, too" || diag "$out"

# --- all that is known

remote nvidia-smi -q
like "$rc:$out" '^0:.*==============NVSMI LOG==============.*Attached GPUs +: 2
GPU 00007[0-9A-F]{3}:01:00\.0
    Product Name                          : rgpu software GPU' "-q" || diag "$out$err"
remote nvidia-smi -q -d MEMORY -i 1
is "$rc:$(grep -c '^GPU' <<< "$out"):$(grep -E '^    [^ ]' <<< "$out" | sort | paste -sd,)" \
    "0:1:    BAR1 Memory Usage,    FB Memory Usage" "-d, -i" || diag "$out$err"
remote nvidia-smi -q -x
python3 -c 'import sys, xml.dom.minidom as m
gpus = m.parse(sys.stdin).getElementsByTagName("gpu")
memory = [g.getElementsByTagName("fb_memory_usage")[0] for g in gpus]
print([m.getElementsByTagName("total")[0].firstChild.data for m in memory])' <<< "$out" > "$T/xml"
is "$(cat "$T/xml")" "['300 MiB', '300 MiB']" "-x" || diag "$out"

remote nvidia-smi topo -m
like "$rc:$out" "^0:	GPU0	GPU1	CPU Affinity.*
GPU0	 X 	NODE	$(cat /sys/devices/system/cpu/online)	.*
GPU1	NODE	 X 	" "topo -m" || diag "$err"
remote nvidia-smi --version
like "$out" 'DRIVER version +: [0-9.]+
CUDA Version +: 13.0' "--version" || diag "$err"
# shellcheck disable=SC2016
remote sh -c 'nvidia-smi -lms 100 --query-gpu=index --format=csv > "$0/loop" & p=$!
until [ "$(wc -l < "$0/loop")" -ge 5 ]; do sleep 0.05; done; kill $p' "$T"
is "$(head -n 5 "$T/loop" | paste -sd' ')" "index 0 1 0 1" "-lms: one header, again and again"
remote nvidia-smi -L -f "$T/list"
is "$rc:$out:$(wc -l < "$T/list")" "0::2" "-f writes to a file" || diag "$err"

# --- statuses

remote nvidia-smi -i 7
is "$rc" 6 "no such GPU: 6" || diag "$err"
uuid=$("$build/bin/rgpu" run -n 1 -- nvidia-smi --query-gpu=uuid --format=csv,noheader)
try 60 "$build/bin/rgpu" run -n 1 --uuid "$uuid" -- nvidia-smi -i "$uuid" -L
is "$rc:$(wc -l <<< "$out")" "0:1" "a GPU by its UUID" || diag "$err"
remote nvidia-smi --nonsense
is "$rc" 2 "a wrong argument: 2"
remote nvidia-smi -pm 1
is "$rc" 4 "what changes a GPU: 4"
LD_LIBRARY_PATH=$interpose try 20 "$smi"
like "$rc:$err" "^9:.*couldn't communicate with the NVIDIA driver" "in no job: 9"
done_testing
