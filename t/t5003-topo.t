#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rgpu topo on a made-up host, and workers bound to the processors near their GPUs.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu

rgpud gpu1
clients "gpu1=$control"
try 20 "$rgpu" topo
like "$rc $out" '^0 gpu1
 .*GPU0  GPU1  CARD  NUMA  CPUS  PCI .*
GPU0  X     \?     \?     -     -     0000:' "software GPUs lie nowhere"
read -ra pci < <("$rgpu" topo --json | json_value '[g["pci"] for g in j["servers"][0]["gpus"]]')
stop "$pid"
try 20 "$rgpu" topo
is "$rc" 123 "no server answers"

# Two processors of one core, a GPU at each, the card at the second.
python3 "$py/hwloc_host.py" "$T/host.xml" "${pci[@]}"
export HWLOC_XMLFILE=$T/host.xml
rgpud gpu2 'network_interface = "eth7"'
clients "gpu2=$control"
try 20 "$rgpu" topo
like "$out" 'gpu2: network card eth7
 .*
GPU0  X     SYS   SYS   0     0 .*
GPU1  SYS   X     PHB   1     1 ' "links, card, NUMA node and processors of each GPU"
is "$("$rgpu" topo --json |
    json_value 'str([(g["links"], g["cpus"], g["numa"]) for g in j["servers"][0]["gpus"]])')" \
    "[(['SYS', 'SYS'], '0', 0), (['SYS', 'PHB'], '1', 1)]" "the same as JSON"
try 20 "$rgpu" run -v -- true
like "$err" 'gpu2 GPU 1 ' "one GPU: the one beside the card"

worker_of()  # UUID
{
    local worker
    for worker in $(pgrep -x rgpu-worker); do
        grep -qsaF "CUDA_VISIBLE_DEVICES=$1" "/proc/$worker/environ" && echo "$worker" && return
    done
    return 1
}
bound()  # UUID: to which processors the worker of a program on that GPU is bound
{
    start "holds-$1" "$rgpu" run --uuid "$1" -- python3 -c \
        'import ctypes, time; ctypes.CDLL("libcuda.so.1").cuInit(0); time.sleep(60)'
    wait_for 20 worker_of "$1" || return 1
    sed -n 's/^Cpus_allowed_list:\t//p' "/proc/$(worker_of "$1")/status"
    stop "$pid"
}
if taskset -c 0 true 2>/dev/null && taskset -c 1 true 2>/dev/null; then
    read -ra uuids < <("$rgpu" list --json |
        json_value '[g["uuid"] for g in j["servers"][0]["gpus"]]')
    is "$(bound "${uuids[0]}")" 0 "a worker of GPU 0 is bound to processor 0"
    is "$(bound "${uuids[1]}")" 1 "... of GPU 1 to processor 1"
else
    skip "this machine has no processors 0 and 1 for us" 2
fi
done_testing
