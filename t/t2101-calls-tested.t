#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Which driver calls are tested remotely on the software GPU: every CUDA program runs, RGPU_STATS
# notes the calls that succeed, and t/lib/calls-softgpu.list (what doc/driver-calls.md says) must be
# true. RGPU_COLLECT=1 adds to the list.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

list=$root/t/lib/calls-softgpu.list
# What runs for minutes, for ever, or needs arguments has tests of its own.
left_out='^(steady|address_of_other|train|soft_driver|checksum.*|random.*)-'
rgpud gpu1 'softgpu_devices = 2' 'softgpu_memory = "512M"'
clients "gpu1=$control"
sed -i '/^interposer_dir/a library_path = ["'"$cuda_libs"'"]' "$RGPU_CONF"

mkdir "$T/stats"
ran=0
for program in "$build"/cuda/*-static; do
    [[ ${program##*/} =~ $left_out ]] && continue
    # Its own test says whether it passes; here counts what it could call.
    try 60 env RGPU_STATS="$T/stats/%p.json" "$build/bin/rgpu" run -n 2 --wait 30s -- "$program"
    ran=$((ran + 1))
done
[ $ran -gt 8 ] && pass "$ran programs ran" || fail "$ran programs ran"
like "$(cat "$T"/stats/*.json | head -n 1)" \
    '"calls": [0-9]+, "round_trips": [0-9]+, "bytes_sent": [0-9]+' "RGPU_STATS=FILE writes JSON"

[ -z "${RGPU_COLLECT:-}" ] || "$root/contrib/coverage-table" --merge "$list" "$T"/stats/*.json
cp "$list" "$T/list"
grep '^#' "$list" > "$T/seen"
"$root/contrib/coverage-table" --merge "$T/seen" "$T"/stats/*.json
is "$(comm -23 <(grep -v '^#' "$list" | sort) <(grep -v '^#' "$T/seen" | sort))" "" \
    "every call of the list succeeded"
note "not in the list yet (make coverage-table adds them): $(comm \
    -13 <(grep -v '^#' "$list" | sort) <(grep -v '^#' "$T/seen" | sort) | tr '\n' ' ')"

# --- the same counts for people

try 60 env RGPU_STATS=1 "$build/bin/rgpu" run -n 1 -- "$build/cuda/vector_add-static"
is "$rc" 0 "a program with RGPU_STATS=1"
sentence='rgpu stats: [0-9]+ calls of [0-9]+ names, [0-9]+ round trips, [0-9]+ bytes sent, [0-9]+ '
sentence+='received \((tcp|shm)\), [0-9.]+ ms blocked'
like "$err" "$sentence" "... tells its sums at the end"
like "$err" 'rgpu stats: +[0-9]+ +0 +[0-9]+ +[0-9.]+ +[0-9.]+  cuMemAlloc_v2' \
    "... and each call by name"
program='/^rgpu stats: +[0-9]+ +[0-9]+ +[0-9]+/ {calls += $3; trips += $5} END {print calls, '
program+='trips}'
sum=$(awk "$program" <<< "$err")
told=$(sed -nE \
    's/^rgpu stats: ([0-9]+) calls of [0-9]+ names, ([0-9]+) round trips.*/\1 \2/p' <<< "$err")
is "${sum% *}" "${told% *}" "the calls add up"
ok "round trips by name are no more than in all" test "${sum#* }" -le "${told#* }"
done_testing
