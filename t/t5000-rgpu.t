#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The rgpu command as people and scripts use it: list, run, leases, release, config, exit statuses.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu

rgpud gpu1
server=$pid
clients "gpu1=$control"
all_free() { "$rgpu" list | grep -q '^2 of 2 GPUs free'; }

# --- list

try 20 "$rgpu" list
is "$rc" 0 "list"
like "$out" '^SERVER +GPU +NAME' "... has a heading"
like "$out" 'gpu1 +1 .* 100% +64.0 MiB +64.0 MiB' "... and a line for each GPU"
like "$out" '2 of 2 GPUs free$' "... and the sum"
try 20 "$rgpu" list --json
is "$(json '[(s["name"], s["reachable"], len(s["gpus"])) for s in j["servers"]]' "$out")" \
    "[('gpu1', True, 2)]" "list --json"

# --- run

program='cat "$RGPU_LEASE"; stat -c "%a %u" "$RGPU_LEASE" "$(dirname "$RGPU_LEASE")" >&2; echo '
program+='"$LD_LIBRARY_PATH" >&2'
try 20 "$rgpu" run -n 2 -- sh -c "$program"
expression='j["version"], j["servers"][0]["name"], len(j["servers"][0]["gpus"]), '
expression+='len(j["servers"][0]["secret"])'
is "$(json "$expression" "$out")" \
    "(1, 'gpu1', 2, 64)" "run gives the command a lease file"
is "$(sed -n 1,2p <<< "$err")" "400 $(id -u)
700 $(id -u)" "... that only its owner can read"
like "$err" "(^|
)$interpose(:|\$)" "... and our libcuda.so.1 in front"
lease_file=$("$rgpu" run -- sh -c 'echo $RGPU_LEASE')
is "$(ls -d "$(dirname "$lease_file")" 2>/dev/null)" "" \
    "... which is gone afterwards, with its directory"
program='secret=$(grep -oE "[0-9a-f]{64}" "$RGPU_LEASE") && echo ${#secret} && env | grep -c '
program+='"$secret"'
is "$("$rgpu" run -- sh -c "$program")" "64
0" "no secret is in the environment"
ok "everything is given back" all_free

status()  # WANTED, NAME, ARGUMENT...
{
    local wanted=$1 name=$2
    shift 2
    try 30 "$rgpu" "$@"
    is "$rc" "$wanted" "$name" || diag "$err"
}
status 7 "the command's status is run's" run -- sh -c 'exit 7'
status 137 "a command that a signal ended: 128 + n" run -- sh -c 'kill -9 $$'
status 127 "no such command" run -- /nonexistent/command
like "$err" '/nonexistent/command: No such file' "... and the error names it"
status 126 "a command that cannot be run" run -- /etc/passwd
status 121 "what the pool can never give" run -n 3 -- true
is "$err" "rgpu: the pool can never give this: gpu1: it has 2 GPUs, 3 are wanted" \
    "... with the reason, and no cure where there is none (--span)"
status 121 "... of memory, too" run -m 1G -- true
status 2 "an option that is none" run --gpu 1 -- true
like "$err" 'run has no option --gpu' "... is named"
status 2 "a share that is none" run -p 50 -- true
like "$err" 'write a fraction from 0.01 to 1, like 0.5, or 50%' "... and what would be right"
status 2 "a size that is none" run -m much -- true
status 2 "a time that is none" run -w 5 -- true
status 2 "no command" run -n 1
status 2 "no subcommand"
status 2 "an unknown subcommand" lisst
like "$err" "^rgpu: there is no subcommand \"lisst\"" "... which is named"
is "$("$rgpu" run -- printf '%s,' a -- b -n 3)" "a,--,b,-n,3," "the command's arguments are its own"
is "$("$rgpu" run printf '%s,' -n 3)" "-n,3," "... also without --"
is "$(echo through | "$rgpu" run -- cat)" through "stdin goes to the command"

start hold "$rgpu" run -p 0.25 -m 8M --verbose -- sleep 60
hold=$pid
taken() { "$rgpu" list | grep -q '75%'; }
ok "a share of a GPU is taken" wait_for 10 taken
ok "--verbose says what was leased" wait_for 10 grep -q 'gpu1 GPU 0 .*25%, 8M' "$T/hold.log"
like "$("$rgpu" list)" "75% +$(id -un): pid $hold on .*\(25%\) +56.0 MiB +64.0 MiB" \
    "list says who holds it"
try 20 "$rgpu" leases --json
expression='[(l["server"], l["owner"]["pid"], l["gpus"][0]["share"], l["gpus"][0]["memory"]) for l '
expression+='in j["leases"]]'
is "$(json "$expression" "$out")" \
    "[('gpu1', $hold, 25, 8388608)]" "leases --json"
lease=$(json 'j["leases"][0]["id"]' "$out")
like "$("$rgpu" leases)" "${lease:0:8} +gpu1 .* 25% +8.0 MiB" "leases"
kill -TERM "$hold"
wait "$hold"
is $? 143 "a signal goes to the command, and its end is run's"
ok "... and the share is back" all_free

start renewed "$rgpu" run -- sleep 60
wait_for 10 eval '! all_free'
granted=$(json 'j["leases"][0]["granted_at"]' "$("$rgpu" leases --json)")
# Its term is three seconds.
older() { [ "$(date +%s)" -gt $((granted + 4)) ]; }
wait_for 15 older
ok "run renews its lease" eval '! all_free'
try 20 "$rgpu" run -n 2 --wait 0 -- true
is "$rc" 122 "what others hold, with --wait 0"
like "$err" 'no GPUs within 0: gpu1: 1 of its 2 GPUs' "... and why"
try 20 "$rgpu" run -n 2 --wait 300ms -- true
is "$rc" 122 "... and with a limit"
like "$err" 'waiting for GPUs.*at most 300ms.*gpu1: 1 of its 2 GPUs' \
    "... one line says for what it waits"
start waits "$rgpu" run -n 2 --wait 60s -- true
waits=$pid
wait_for 10 grep -q 'waiting' "$T/waits.log"
kill -INT "$waits"
wait "$waits"
is $? 130 "a signal ends the waiting"

# --- bench

try 60 "$rgpu" bench gpu1
like "$rc $out" '^0 rgpu software GPU of gpu1
' "bench leases a GPU of the server and measures it" || diag "$err"
like "$out" 'TCP connect to the server +[0-9.]+.*
a call that waits .* +[0-9.]+' "... calls beside the network's own round trip"
like "$out" '1M +[0-9.]+ +[0-9.]+' "... and copies"
one_free() { "$rgpu" list | grep -q '^1 of 2 GPUs free'; }
ok "... and gives it back" wait_for 20 one_free
try 60 "$rgpu" run -p 0.5 -- "$rgpu" bench --json
expression='j["server"], j["call"]["p50_us"] > 0, j["call"]["p50_us"] <= j["call"]["p99_us"], '
expression+='len(j["bandwidth"]) > 2, len(j["slow_down"]) > 3'
is "$(json "$expression" "$out")" \
    "('gpu1', True, True, True, True)" "bench --json, of the GPU that the process has" ||
    diag "$err"
try 20 "$rgpu" bench gpu9
isnt=$rc
ok "bench of a server that is none (status $isnt)" [ "$isnt" != 0 ]
like "$err" 'gpu9' "... names it"

# --- release

lease=$(json 'j["leases"][0]["id"]' "$("$rgpu" leases --json)")
try 20 "$rgpu" release 00000000
is "$rc" 1 "release: no such lease"
try 20 "$rgpu" release "${lease:0:8}"
is "$rc $out" "0 1 released" "release by the first digits"
ok "... gives the GPU back" wait_for 5 all_free
api POST /v1/offers '{"gpus": 1, "owner": {"uid": 0, "job": "17", "node": "cn1"}}'
api POST "/v1/offers/$(json 'j["id"]')/accept"
like "$("$rgpu" list)" 'job 17 on cn1' "a job's lease is shown with job and node"
try 20 "$rgpu" release --job 17 --node cn2 --json
is "$rc $out" '1 {"released": 0}' "release --job --node: of another node"
try 20 "$rgpu" release --job 99999
is "$rc $out $err" '1  rgpu: job 99999 has no lease that you may end; see rgpu leases' \
    "release --job of a job without leases"
try 20 "$rgpu" list first second third
is "$rc $err" '2 rgpu: these arguments are too many: first second third; see rgpu --help' \
    "arguments too many are named in their order"
is "$("$rgpu" release --job 17 --json)" '{"released": 1}' "release --job"
status 2 "release of nothing" release

# --- config, help, version

like "$("$rgpu" config)" "address = \"127.0.0.1:$control\"" "config shows what is in force"
try 20 "$rgpu" config --defaults --json
ok "config --defaults --json is JSON" json 'len(j["keys"])' "$out"
"$rgpu" config > "$T/again.conf"
ok "what config prints can be read again" env RGPU_CONF="$T/again.conf" "$rgpu" list
like "$("$rgpu" --version)" '^rgpu [0-9]+\.[0-9]+' "--version"
for command in list run leases release config; do
    like "$("$rgpu" $command --help)" 'Usage: rgpu '$command "$command --help"
done
like "$("$rgpu" run --help)" '121 .*never' "run --help tells the exit statuses"

# --- no server, no file

stop "$server"
status 123 "list without a server" list
like "$out" "no answer from server gpu1 \(127.0.0.1:$control\): .*Connection refused" \
    "... names it and says why"
status 123 "list --json without a server" list --json
is "$(json 'j["servers"][0]["reachable"]' "$out")" False "... says it in JSON"
status 123 "run without a server" run -- true
like "$err" "no server answers: server gpu1 \(127.0.0.1:$control\): .*connect" \
    "... names it and says why"
status 1 "no file" --config /nonexistent/rgpu.conf list
like "$err" '/nonexistent/rgpu.conf: No such file' "... is named"
status 125 "... for run" --config /nonexistent/rgpu.conf run -- true
echo '[clients]' > "$T/wrong.conf"
status 1 "a wrong file" --config "$T/wrong.conf" list
like "$err" "wrong.conf:1: clients: unknown" "... with the line"
done_testing
