#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a program would take over other links: rgpu run --predict, and rgpu predict of what
# RGPU_STATS recorded. t/long/t5016-predictions.t has five programs over four links.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu kinds=$build/cuda/kinds-static

rgpud gpu1
clients "gpu1=$control"
cd "$T" || exit 1
unset RGPU_STATS

# --- at the end of a run

try 60 "$rgpu" run --predict -- "$kinds" small
is "$rc $out" "0 ok" "rgpu run --predict runs the program" || diag "$err"
like "$err" "^this program: [0-9.]+ s here; [0-9]+ calls, [0-9]+ round trips, [0-9.]+ [KM]iB to .*
PREDICTED +LINK +SECONDS +TIMES LOCAL +FOR ROUND TRIPS +FOR BYTES
local +- +[0-9.]+ +1\.00 +0\.00 +0\.00
gpu1 +[0-9]+ us, [0-9.]+ [MG]bit/s +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+
advice: " "stderr tells of each server, and of a GPU of this machine"
try 60 "$rgpu" run --predict --json --link far=50ms,10G --link thin=1ms,10M,20M -- "$kinds" small
is "$rc $out" "0 ok" "... also for links that are written down" || diag "$err"
is "$(json '[l["name"] for l in j["links"]]' "$err")" "['local', 'gpu1', 'far', 'thin']" \
    "... as JSON"
link() { json "[l for l in j['links'] if l['name'] == '$1'][0]$2" "$err"; }
ok "... 300 waits over 50 ms are 15 s and a start: $(link far '["seconds"]')" \
    json_true "15 < $(link far '["seconds"]') < 18" <<< '{}'
ok "... nearly all of them for round trips: $(link far '["round_trips_s"]')" \
    json_true "15 <= $(link far '["round_trips_s"]') <= $(link far '["seconds"]')" <<< '{}'
like "$(json 'j["advice"]' "$err")" \
    'over far, most of it waits for answers: [23][0-9]{2} of [0-9]+ round trips are cuMemcpyDtoH' \
    "... and the advice names the call"
try 60 "$rgpu" run --predict --json --link thin=1ms,10M,20M -- "$kinds" large
ok "24 MiB up at 10 Mbit/s and back at 20 are 30 s: $(link thin '["bytes_s"]')" \
    json_true "29.5 < $(link thin '["bytes_s"]') < 32" <<< '{}'
like "$(json 'j["advice"]' "$err")" 'most of it is bytes' "... and the advice says so"
left=$(find "${XDG_RUNTIME_DIR:-${TMPDIR:-/tmp}}" -maxdepth 1 -name 'rgpu-predict.*' \
    -newer rgpu.conf 2> /dev/null)
is "$left" "" "nothing is left of the records"

try 60 "$rgpu" run --predict -- sh -c "'$kinds' small && '$kinds' small && exit 7"
is "$rc" 7 "the status stays the command's own"
like "$err" '2 processes, .* round trips' "... and a script's processes are told together"
try 20 "$rgpu" run --predict -- true
like "$rc $err" '^0 rgpu: no prediction: the command made no CUDA call' \
    "without CUDA there is nothing to predict"
try 20 "$rgpu" run --link 5ms,1G -- true
like "$rc $err" '^2 rgpu: --link requires --predict' "--link alone is refused"
RGPU_STATS=1 try 20 "$rgpu" run --predict -- true
like "$rc $err" '^2 rgpu: --predict records by RGPU_STATS, which is set to 1' \
    "... and --predict where RGPU_STATS is set"
try 20 "$rgpu" run --predict --link 5ms -- true
like "$rc $err" '^2 rgpu: --link: 5ms is no link: write' "... and a link that is none"

# --- from a record

RGPU_STATS=$T/run-%p.json try 60 "$rgpu" run -- "$kinds" small
record=$(echo "$T"/run-*.json)
try 20 "$rgpu" predict "$record"
like "$rc $out" "^0 this program: .*
local .*
gpu1 +[0-9]+ us" "rgpu predict reads a record" || diag "$err"
try 20 "$rgpu" predict --json --link 50ms,10G "$record"
is "$rc $(json '[l["name"] for l in j["links"]]' "$out")" "0 ['local', '50ms,10G']" \
    "... for a link alone, without asking a server"
"$rgpu" request -o lease > /dev/null
try 60 "$rgpu" run --lease lease -- "$rgpu" bench --json
echo "$out" > bench.json
try 20 "$rgpu" predict --json --link here=bench.json "$record"
ok "... for what rgpu bench has measured: $(json 'j["links"][1]["round_trip_us"]' "$out") us" \
    json_true "abs(j['links'][1]['round_trip_us'] - $(json 'j["call"]["p50_us"]' \
    "$(cat bench.json)")) < 0.01" <<< "$out"
try 20 "$rgpu" predict --server gpu9 "$record"
like "$rc $err" '^1 rgpu: .*has no server gpu9' "a server that is not there is named" || diag "$out"
echo '{}' > empty.json
try 20 "$rgpu" predict empty.json
like "$rc $err" '^1 rgpu: empty.json is no record of a program' "a file that is no record"
try 20 "$rgpu" predict nowhere.json
like "$rc $err" '^1 rgpu: nowhere.json: No such file' "... and none"

# --- and what is measured then

start link python3 "$root/t/lib/slow_link.py" lease far 20 25
wait_for 20 test -s far || bail "the link does not come up: $(cat "$T/link.log")"
try 60 "$rgpu" run --lease far -- "$rgpu" bench --json
echo "$out" > far.json
RGPU_TRANSPORT=tcp try 60 "$rgpu" run --lease lease --predict --json --link far=far.json -- \
    "$kinds" small
predicted=$(link far '["seconds"]')
begin=$(date +%s.%N)
try 60 "$rgpu" run --lease far -- "$kinds" small
measured=$(json "$(date +%s.%N) - $begin" '{}')
ok "over a link of 20 ms it takes what was predicted: $measured s, $predicted s predicted" \
    json_true "abs($measured / $predicted - 1) < 0.25" <<< '{}'
done_testing
