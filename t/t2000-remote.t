#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs on remote GPUs without Slurm: rgpud on loopback, each program through `rgpu run`.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

control=$(free_port) data=$(free_port)
export RGPU_CONF=$T/rgpu.conf
cat > "$RGPU_CONF" <<EOF
[[server]]
name = "gpu1"
address = "127.0.0.1:$control"
[auth]
method = "none"
[rgpud]
name = "gpu1"
listen = "127.0.0.1"
control_port = $control
data_port = $data
driver = "$softgpu/libcuda.so.1"
worker = "$build/libexec/rgpu-worker"
worker_user = "$(id -un)"
state_dir = "$T/state"
softgpu_devices = 2
softgpu_memory = "512M"
[client]
interposer_dir = "$interpose"
library_path = ["$cuda_libs"]
EOF
chmod 755 "$T"
mkdir "$T/direct"
start rgpud "$build/sbin/rgpud" --config "$RGPU_CONF"
wait_for 30 "$build/bin/rgpu" list || { diag "$(cat "$T/rgpud.log")"; fail \
    "rgpud serves"; done_testing; exit 1; }

remote() { try 120 "$build/bin/rgpu" run -n "$1" --wait 30s -- "${@:2}"; }

for program in vector_add matmul_tiled warp_reduce streams two_device_sum soft_kernels soft_memory \
    soft_streams unasked mistakes ends sync_copies soft_graphs graph_host soft_vmm soft_driver; do
    for cudart in static shared; do
        remote 2 "$build/cuda/$program-$cudart"
        is "$rc" 0 "$program, $cudart cudart" || diag "$out$err"
    done
done

# --- from eight threads of one process: each does the program's work, and prints what one prints
# directly

ok "t/lib/eight.c" cc -shared -fPIC -O2 -o "$T/eight.so" "$root/t/lib/eight.c" -ldl
# Times are nobody's results.
results() { sed -E 's/[0-9.]+ (ms|s)\b/TIME/' <<< "$1" | sort | uniq -c; }
# The others have variables that one thread at a time can use, capture (which forbids the other
# threads a lot), or look at what all threads have allocated.
for program in vector_add matmul_tiled warp_reduce streams two_device_sum unasked idle \
    read_after_wait poll; do
    try 60 env LD_LIBRARY_PATH="$softgpu" RGPU_SOFTGPU_HOST="$T/direct" RGPU_SOFTGPU_DEVICES=2 \
        RGPU_SOFTGPU_MEMORY=512M \
        "$build/cuda/$program-static"
    direct=$(results "$out" | awk '{$1 *= 8; print}')
    remote 2 env LD_PRELOAD="$T/eight.so" "$build/cuda/$program-static"
    is "$rc" 0 "$program from eight threads" || diag "$out$err"
    is "$(results "$out" | awk '{$1 += 0; print}')" "$direct" \
        "... with the results of one thread, directly"
done

# --- single features, as t0102 runs them directly

for program in not_in_use ends_early told_at_once memory_op_nodes conditional_nodes \
    unknown_instruction waiting_ends arrays textures pools stream_orders default_streams events \
    host_functions occupancy host_pieces host_pools stays_idle; do
    remote 2 "$build/cuda/features/$program"
    is "$rc $(tail -n 1 <<< "$out")" "0 right" "$program" || diag "$out$err"
done
unlike "$out" "no pools" "... has pools"
try 120 "$build/bin/rgpu" run -n 1 -m 256M --wait 30s -- "$build/cuda/features/waiting_ends"
is "$rc $(tail -n 1 <<< "$out")" "0 right" "... waiting_ends under a cap on memory" ||
    diag "$out$err"

# --- handles

remote 1 "$build/cuda/parts-static" 200
is "$rc" 0 "objects end with what they are part of, while other threads make new ones" ||
    diag "$out$err"
ok "... and their handles are used again (${out%%$'\n'*})" [ "${out%% *}" -lt 100 ]

# --- what the interposer says when it cannot

alone() { try 30 env LD_LIBRARY_PATH="$interpose:$cuda_libs" "$@"; }
alone "$build/cuda/vector_add-static"
like "$err" "RGPU_LEASE is not set.*srun --gres=rgpu:1" "no lease: the cure is named"
alone RGPU_LEASE="$T/none.json" "$build/cuda/vector_add-static"
like "$err" "$T/none.json: No such file" "no lease file: the path is named"
lease()
{
    printf '{"servers":[{"name":"gpu7","address":"%s","lease":"0123","secret":"00ff"}]}\n' "$1" \
        > "$T/l.json"
}
lease "127.0.0.1:$(free_port)"
alone RGPU_LEASE="$T/l.json" "$build/cuda/vector_add-static"
like "$err" "server gpu7 \(127.0.0.1:[0-9]+\): cannot connect.*Connection refused" \
    "no server: its name, address and the reason"
lease "127.0.0.1:$data"
alone RGPU_LEASE="$T/l.json" "$build/cuda/vector_add-static"
like "$err" "server gpu7 .*: this lease is not known here, or has ended" "a lease that is not known"
like "$(cat "$T/rgpud.log")" "refused: unknown or expired lease" "... and rgpud logs it"

# --- every call waits

for program in vector_add streams soft_streams unasked graph_host; do
    remote 2 env RGPU_SYNC=1 "$build/cuda/$program-static"
    is "$rc" 0 "$program with RGPU_SYNC=1" || diag "$out$err"
done

remote 1 python3 "$root/t/lib/batch_copies.py"
is "$out" right "batches of 3D copies" || diag "$err"

try 60 env LD_LIBRARY_PATH="$softgpu:$cuda_libs" python3 "$root/t/lib/no_context.py"
is "$out" right "what a driver refuses at once" || diag "$err"
remote 1 python3 "$root/t/lib/no_context.py"
is "$out" right "... and so does a remote one" || diag "$err"

# --- what is over already is not asked for

remote 1 env RGPU_STATS="$T/idle.json" "$build/cuda/idle-static"
is "$rc" 0 "waiting for what is over, and for what is not" || diag "$out$err"
few_round_trips() { json_true 'j["round_trips"] <= 1000' < "$1"; }
ok "6000 waits for nothing need no server" few_round_trips "$T/idle.json"

# --- the trace

remote 1 env RGPU_TRACE=1 "$build/cuda/vector_add-static"
like "$err" 'cuMemAlloc_v2\(dptr=-> 0x[0-9a-f]+, bytesize=[0-9]+\) = CUDA_SUCCESS <[0-9.]+ us>' \
    "RGPU_TRACE=1 names calls, arguments and times"

free() { "$build/bin/rgpu" list | grep -q '2 of 2 GPUs free'; }
ok "everything is free at the end" wait_for 5 free
no_worker() { [ -z "$(workers_of "$pid")" ]; }
ok "no worker is left" wait_for 5 no_worker
done_testing
