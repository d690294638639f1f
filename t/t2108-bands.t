#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Device memory at addresses of our own: band k for a program's k-th server, whatever is allocated
# and freed there. Where a driver does not give these addresses, the program has memory all the
# same, and `rgpu list` says so.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
features=$build/cuda/features
run() { try 200 "$build/bin/rgpu" run --wait 20s "$@"; }
band=(at 0x580000000000 0x10000000000)

rgpud gpu1 'softgpu_devices = 2' 'softgpu_memory = "256M"'
clients "gpu1=$control"
run -n 1 -- "$features/random_memory" "${band[@]}"
is "$rc $out" "0 right" "memory of several processes lies in band 0, and keeps to a model" ||
    diag "$err"
run -n 1 --memory 96M -- "$features/random_memory" "${band[@]}"
is "$rc $out" "0 right" "... with a cap, to the last page of it" || diag "$err"
stats=$T/stats.json
run -n 1 -- env RGPU_STATS="$stats" "$features/allocations"
is "$rc $out" "0 right" "memory is allocated and freed three thousand times" || diag "$err"
trips='[j["by_name"][n]["round_trips"] for n in ("cuMemAlloc_v2", "cuMemFree_v2")]'
few() { json_true "${trips}[0] <= 40 and ${trips}[1] == 0" < "$stats"; }
ok "... which asks the server for credit, and for nothing else" few || diag "$(cat "$stats")"
run -n 1 -- env RGPU_SYNC=1 RGPU_STATS="$stats" "$features/allocations"
is "$rc $out" "0 right" "... and with RGPU_SYNC=1" || diag "$err"
each() { json_true "${trips}[0] >= 3000 and ${trips}[1] >= 3000" < "$stats"; }
ok "... by a round trip each" each || diag "$(cat "$stats")"

# Stream-ordered memory, which the client divides up.
run -n 1 -- env RGPU_STATS="$stats" "$features/stream_memory"
is "$rc $out" "0 right" "three threads allocate and free in their streams" || diag "$err"
trips='[j["by_name"][n]["round_trips"] for n in '
trips+='("cuMemAllocAsync", "cuMemAllocFromPoolAsync", "cuMemFreeAsync")]'
hardly() { json_true "sum(${trips}) <= 40 and ${trips}[2] == 0" < "$stats"; }
ok "... and ask the server for credit, and for nothing else" hardly || diag "$(cat "$stats")"
run -n 1 -- env RGPU_SYNC=1 RGPU_STATS="$stats" "$features/stream_memory"
is "$rc $out" "0 right" "... and with RGPU_SYNC=1" || diag "$err"
each() { json_true "sum(${trips}) >= 1000" < "$stats"; }
ok "... by a round trip each" each || diag "$(cat "$stats")"
run -n 1 -- "$features/stream_memory" all 252
is "$rc $out" "0 right" "all memory of the GPU can be had from a pool, and back from it" ||
    diag "$err"
run -n 1 --memory 96M -- "$features/stream_memory" all 94
is "$rc $out" "0 right" "... and all that a lease may have" || diag "$err"
mkfifo "$T/until" "$T/rests"
beside="'$features/stream_memory' rest < '$T/until' > '$T/rests' & exec 3> '$T/until' 4< '$T/rests'
read -r line <&4 && [[ \$line = rests ]] && '$features/stream_memory' all 248
result=\$?; exec 3>&-; wait; exit \$result"
run -n 1 -- bash -c "$beside"
is "$rc $out" "0 right" "... beside a process that rests and has freed what it had" || diag "$err"

run -n 2 -- "$build/cuda/sync_copies-static"
is "$rc $out" "0 right" "copies between two GPUs come behind what either was given" || diag "$err"
try 20 "$build/bin/rgpu" list --json
is "$(json 'sorted(set(g["fixed_addresses"] for s in j["servers"] for g in s["gpus"]))' "$out")" \
    "[True]" "rgpu list --json says that the driver gives these addresses"
try 20 "$build/bin/rgpu" list
unlike "$out" "no fixed addresses" "rgpu list has nothing to say of it"

# A driver that does not.
export RGPU_SOFTGPU_ADDRESSES=low
rgpud gpu2 'softgpu_devices = 2' 'softgpu_memory = "256M"'
unset RGPU_SOFTGPU_ADDRESSES
clients "gpu2=$control"
try 20 "$build/bin/rgpu" list
like "$out" "gpu2: no fixed addresses on GPU 0,1" "rgpu list names GPUs whose driver does not"
try 20 "$build/bin/rgpu" list --json
is "$(json 'sorted(set(g["fixed_addresses"] for s in j["servers"] for g in s["gpus"]))' "$out")" \
    "[False]" "... and so does its JSON"
run -n 1 --memory 96M -- "$features/random_memory"
is "$rc $out" "0 right" "programs have memory all the same" || diag "$err"
run -n 2 -- "$features/ipc_devices"
is "$rc $out" "0 right" "... and share it between processes" || diag "$err"
done_testing
