#!/bin/bash
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
mapfile -t pci < <("$rgpu" topo --json | python3 -c 'import json, sys; [print(g["pci"]) for g in json.load(sys.stdin)["servers"][0]["gpus"]]')
stop "$pid"
try 20 "$rgpu" topo
is "$rc" 123 "no server answers"

# Two processors of one core, a GPU at each, the card at the second.
cat > "$T/host.py" <<'EOF'
import sys
path, *pci = sys.argv[1:]
def package(n, devices):
    s = f'cpuset="0x{1 << n:x}" complete_cpuset="0x{1 << n:x}" nodeset="0x{1 << n:x}" complete_nodeset="0x{1 << n:x}"'
    return (f'<object type="Package" os_index="{n}" {s} gp_index="{10 + n}">'
            f'<object type="NUMANode" os_index="{n}" {s} gp_index="{20 + n}" local_memory="1073741824"/>'
            f'<object type="PU" os_index="{n}" {s} gp_index="{30 + n}"/>'
            f'<object type="Bridge" gp_index="{40 + n}" bridge_type="0-1" depth="0" bridge_pci="0000:[00-7f]">{devices}</object></object>')
def device(n, address, kind, inside=""):
    return (f'<object type="PCIDev" gp_index="{n}" pci_busid="{address}" pci_type="{kind} [10de:2330] [10de:16c1] a1" '
            f'pci_link_speed="0.0">{inside}</object>')
card = device(52, "0000:70:00.0", "0200", '<object type="OSDev" gp_index="60" name="eth7" osdev_type="2"/>')
every = " ".join(f'{k}="0x3"' for k in ("cpuset", "complete_cpuset", "allowed_cpuset", "nodeset", "complete_nodeset", "allowed_nodeset"))
open(path, "w").write('<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n<topology version="2.0">'
    f'<object type="Machine" os_index="0" {every} gp_index="1">' + package(0, device(50, pci[0], "0302")) +
    package(1, device(51, pci[1], "0302") + card) + '</object></topology>\n')
EOF
python3 "$T/host.py" "$T/host.xml" "${pci[@]}"
export HWLOC_XMLFILE=$T/host.xml
rgpud gpu2 'network_interface = "eth7"'
clients "gpu2=$control"
try 20 "$rgpu" topo
like "$out" 'gpu2: network card eth7
 .*
GPU0  X     SYS   SYS   0     0 .*
GPU1  SYS   X     PHB   1     1 ' "links, card, NUMA node and processors of each GPU"
is "$("$rgpu" topo --json | python3 -c 'import json, sys; print([(g["links"], g["cpus"], g["numa"]) for g in json.load(sys.stdin)["servers"][0]["gpus"]])')" \
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
    start "holds-$1" "$rgpu" run --uuid "$1" -- python3 -c 'import ctypes, time; ctypes.CDLL("libcuda.so.1").cuInit(0); time.sleep(60)'
    wait_for 20 worker_of "$1" || return 1
    sed -n 's/^Cpus_allowed_list:\t//p' "/proc/$(worker_of "$1")/status"
    stop "$pid"
}
if taskset -c 0 true 2>/dev/null && taskset -c 1 true 2>/dev/null; then
    mapfile -t uuids < <("$rgpu" list --json | python3 -c 'import json, sys; [print(g["uuid"]) for g in json.load(sys.stdin)["servers"][0]["gpus"]]')
    is "$(bound "${uuids[0]}")" 0 "a worker of GPU 0 is bound to processor 0"
    is "$(bound "${uuids[1]}")" 1 "... of GPU 1 to processor 1"
else
    skip "this machine has no processors 0 and 1 for us" 2
fi
done_testing
