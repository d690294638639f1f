#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# NVIDIA's NCCL in the worker, on software GPUs: the program has our libnccl.so.2, and the server's
# runs where the GPUs are. Collectives of two GPUs in one process, and all-reduce of two processes,
# give the CPU's results, and what they move never passes the node.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/rgpud.sh"
. "$(dirname "$0")/../lib/python.sh"
. "$(dirname "$0")/../lib/nccl.sh"
real_nccl

rgpud gpu1 'softgpu_devices = 2' 'softgpu_memory = "1G"' 'softgpu_compute_capability = "13.0"' \
    "nccl = \"$nccl\"" 'nccl_interface = "lo"'
rgpud_pid=$pid
clients "gpu1=$control"
before=$(ls /dev/shm)
run() { try 900 "$build/bin/rgpu" run -n 2 --wait 20s -- "$@"; }

run "$python" "$root/t/lib/nccl-collectives.py" libnccl.so.2 few
is "$rc $(tail -n 1 <<< "$out")" "0 right" "collectives of two GPUs" || diag "$out$err"
run "$python" "$root/t/lib/nccl-processes.py" libnccl.so.2
is "$rc $(tail -n 1 <<< "$out")" "0 right" "two processes with a GPU each" || diag "$out$err"

# 64 MiB in all: of each of the two GPUs the program sends and fetches nothing.
RGPU_STATS=$T/stats.json run "$python" "$root/t/lib/nccl-bytes.py" $((16 << 20))
is "$rc $(tail -n 1 <<< "$out")" "0 right" "an all-reduce of 64 MiB" || diag "$out$err"
passed=$(json 'j["bytes_sent"] + j["bytes_received"]' "$(cat "$T/stats.json")")
ok "$passed bytes pass the node: less than a hundredth" [ "$passed" -lt $(((64 << 20) / 100)) ]

no_worker() { [ "$(workers_of "$rgpud_pid" | wc -l)" = 0 ]; }
ok "no worker is left" wait_for 20 no_worker
is "$(ls /dev/shm)" "$before" "nothing is left in /dev/shm"
done_testing
