#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Energy: what the GPUs use, as NVML counts it, is divided among the leases that have them.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu tenant=$build/cuda/tenant-static

# The worker program is a script that gives --energy an NVML of ours; rgpu-scheduler lies beside it.
mkdir "$T/nvml" "$T/libexec"
ok "an NVML is made up" g++ -shared -fPIC -o "$T/nvml/libnvidia-ml.so.1" \
    "$root/t/lib/counting_nvml.cc"
ln -s "$build/libexec/rgpu-scheduler" "$T/libexec/rgpu-scheduler"
cat > "$T/libexec/worker" <<EOF
#!/bin/sh
[ "\$1" != --energy ] || export LD_LIBRARY_PATH=$T/nvml
exec "$build/libexec/rgpu-worker" "\$@"
EOF
chmod 755 "$T/libexec/worker"
rgpud gpu1 "worker = \"$T/libexec/worker\""
server=$pid
clients "gpu1=$control"
api GET /v1/inventory
for n in 0 1; do
    uuid=$(json "j['gpus'][$n]['uuid']")
    echo "$uuid $((200 - 150 * n))"
done > "$T/nvml/gpus"

metric() { curl -s "http://127.0.0.1:$control/metrics" | grep '^rgpu_gpu_energy_joules_total'; }
counted() { [ "$(metric | wc -l)" = 2 ]; }
ok "each GPU's counter is in the metrics" wait_for 20 counted

# joules [LEASE-FILE]: what the lease, or all of them, have used so far.
joules()
{
    local lease=
    [ -z "${1-}" ] || lease=$(json 'j["servers"][0]["lease"]' "$(cat "$1")")
    api GET /v1/usage
    json "sum(g['energy_j'] for l in j['leases'] for g in l['gpus']
        if l['lease'].startswith('$lease'))"
}
# used JOULES [LEASE-FILE]
used() { awk "BEGIN {exit !($(joules "${2-}") >= $1)}"; }
# within GOT WANTED PERCENT
within() { awk "BEGIN {d = $1 - ($2); exit !(d * d <= (($2) * $3 / 100) ^ 2)}"; }

# --- a lease that has two GPUs to itself

"$rgpu" request -n 2 -o "$T/both" > /dev/null
wait_for 60 used 1500
api GET /v1/usage
held=$(json 'j["leases"][0]["held_s"]')
got=$(json 'sum(g["energy_j"] for g in j["leases"][0]["gpus"])')
ok "a lease of two GPUs of 200 and 50 W has used what they draw ($got J in $held s)" \
    within "$got" "250 * $held" 2
ratio=$(json 'j["leases"][0]["gpus"][0]["energy_j"] / j["leases"][0]["gpus"][1]["energy_j"]')
ok "... each its own" within "$ratio" 4 2
"$rgpu" release --file "$T/both"

# --- two that share one

"$rgpu" request -n 1 -p 0.5 -o "$T/half" > /dev/null
"$rgpu" request -n 1 -p 0.25 -o "$T/quarter" > /dev/null
watts=$(awk -v of="$(json 'j["servers"][0]["gpus"][0]["uuid"]' "$(cat "$T/quarter")")" \
    '$1 == of {print $2}' "$T/nvml/gpus")
half=$(joules "$T/half")
wait_for 60 used $((2 * watts)) "$T/quarter"
quarter=$(joules "$T/quarter")
half=$(awk "BEGIN {print $(joules "$T/half") - $half}")
note "idle: $half J and $quarter J"
ok "of a GPU that nobody uses each has by what it holds" within "$half" "2 * $quarter" 15

others=$(joules "$T/half") mine=$(joules "$T/quarter")
try 60 "$rgpu" run --lease "$T/quarter" --report -- "$tenant" us=1000 seconds=6
is "$rc" 0 "a program works in the smaller one" || diag "$err"
like "$err" 'energy of the GPUs +[0-9.]+ k?J' "... and its report has the energy"
others=$(awk "BEGIN {print $(joules "$T/half") - $others}")
mine=$(awk "BEGIN {print $(joules "$T/quarter") - $mine}")
note "busy: $mine J for who works, $others J for who rests"
# By what they hold it would be half of the other's.
ok "who works pays for it" awk "BEGIN {exit !($mine > $others && $others >= 0)}"
api GET /v1/usage
all=$(json 'sum(g["energy_j"] for l in j["leases"] for g in l["gpus"])')
held=$(json 'max(l["held_s"] for l in j["leases"])')
note "$all J in $held s of $watts W"
ok "together they have what the GPU has used since the first had it" \
    within "$all" "$watts * $held" 2

# --- what goes wrong

reader=$(pgrep -P "$server" -f -- --energy)
ok "one process reads the counters" test -n "$reader"
kill -9 "$reader"
died() { [ "$(logged gpu1 'energy is not counted: .* --energy: it has ended')" = 1 ]; }
ok "that it has died is in the log" wait_for 20 died
is "$("$rgpu" list | grep -c gpu1)" 2 "... and rgpud serves on"

rgpud gpu3 "worker = \"$T/libexec/worker\"" 'energy = false'
silent=$pid
rgpud gpu2
without() { [ "$(logged gpu2 'energy is not counted: NVML cannot be opened')" = 1 ]; }
ok "a server without NVML says that energy is not counted" wait_for 20 without
is "$(pgrep -P "$silent" -f -- --energy)" "" \
    "one with energy = false, which was there before, has started nothing"
clients "gpu2=$control"
"$rgpu" request -n 1 -o "$T/plain" > /dev/null
api GET /v1/usage
is "$(json '["energy_j" in g for l in j["leases"] for g in l["gpus"]]')" "[False]" \
    "... and tells none"
done_testing
