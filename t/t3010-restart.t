#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rgpud dies and comes back: leases are there, running programs do not notice, no GPU is sold twice.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu

client() { python3 "$root/t/lib/data_client.py" "$data" "$lease" "$secret" "$@"; }
lease()  # GPUS
{
    api POST /v1/offers "{\"gpus\": $1, \"owner\": {\"uid\": 0, \"host\": \"here\", \"pid\": 1}}"
    api POST "/v1/offers/$(json 'j["id"]')/accept"
    lease=$(json 'j["leases"][0]["id"]')
    secret=$(json 'j["leases"][0]["secret"]')
}
free() { api GET /v1/inventory; json '[g["free_share"] for g in j["gpus"]]'; }
free_is() { [ "$(free)" = "$1" ]; }
workers() { api GET /v1/leases; json 'sum(l["workers"] for l in j["leases"])'; }
workers_are() { [ "$(workers)" = "$1" ]; }
# The same server again, on the same ports.
again()
{
    rm "$T/gpu1.ready"
    rgpud gpu1 "control_port = $control" "data_port = $data" 'softgpu_devices = 4'
    server=$pid
}
dies() { kill -9 "$server"; wait "$server" 2>/dev/null; }
hold()
{
    mkfifo "$T/$1.in"
    start "$1" sh -c \
        "exec python3 $root/t/lib/data_client.py $data $lease $secret --hold < $T/$1.in"
    exec 5> "$T/$1.in"
}

# The worker of the lease's last program. Others wait for the next program of this or another lease.
serving()
{
    sed -En "s/.*lease ${lease:0:8}: worker ([0-9]+)(, which waited, is)? for 127\..*/\1/p" \
        "$T/gpu1.log" | tail -n 1
}

rgpud gpu1 'softgpu_devices = 4'
server=$pid
lease 1
first=$lease
lease 2
dies
again
is "$(free | tr -d ' ' | tr , '\n' | grep -c 100)" 1 \
    "after kill -9 three of four GPUs are held still"
api GET /v1/leases
is "$(json 'sorted(len(l["gpus"]) for l in j["leases"])')" "[1, 2]" "... by the same leases"
api GET "/v1/leases?secrets=1"
like "$body" "$secret" "... with the same secrets"
is "$(client)" "accepted proved" "... with which programs connect"
api POST /v1/offers '{"gpus": 2, "owner": {"uid": 0, "host": "here", "pid": 1}}'
is "$(json 'j["answer"]')" later "what they hold is not offered"
like "$(cat "$T/gpu1.log")" '2 leases are restored' "the log says what was restored"
is "$(stat -c %a "$T/gpu1.state/leases.db")" 600 "the file is rgpud's own"

# --- workers

hold second
wait_for 10 grep -q accepted "$T/second.log"
wait_for 10 workers_are 1
worker=$(serving)
dies
again
is "$(workers)" 1 "a worker outlives rgpud and is adopted by the next"
ok "... it is the same process" test -e "/proc/$worker"
api DELETE "/v1/leases/$lease"
is "$(json 'j["released"]')" 1 "its lease is released"
ok "... and the adopted worker ends" wait_for 5 tap_gone "$worker"
ok "... and its GPUs are free" wait_for 5 free_is '[0, 100, 100, 100]'
exec 5>&-

# A worker that ignores SIGTERM, and a lease that ended while rgpud was killing it.
lease 2
hold third
wait_for 10 workers_are 1
worker=$(serving)
kill -STOP "$worker"
api DELETE "/v1/leases/$lease"
dies
again
is "$(free)" '[0, 0, 0, 100]' \
    "GPUs of a lease that ended are nobody's while its worker lives, after a restart too"
ok "... which is killed" wait_for 6 tap_gone "$worker"
ok "... and then they are free" wait_for 5 free_is '[0, 100, 100, 100]'
is "$(grep -l "$lease" "$T/gpu1.state/workers"/*.lease 2> /dev/null)" "" \
    "... and nothing is left of it"
exec 5>&-
api DELETE "/v1/leases/$first"

# --- a program

clients "gpu1=$control"
program=$build/cuda/steps-static
if [ -x "$program" ]; then
    mkfifo "$T/go"
    start run "$rgpu" run -n 2 -- "$program" "$T/go"
    run=$pid
    ok "a program computes on two GPUs" wait_for 60 grep -q '^step 1 ' "$T/run.log"
    exec 6> "$T/go"
    dies
    echo >&6
    ok "... and the program computes on without it" wait_for 20 grep -q '^step 2 ' "$T/run.log"
    again
    is "$(free)" '[0, 0, 100, 100]' "... and holds its GPUs when rgpud is back"
    echo >&6
    ok "... and goes on" wait_for 20 grep -q '^step 3 ' "$T/run.log"
    exec 6>&-
    ok "... and ends" wait_for 20 tap_gone "$run"
    wait "$run"
    is $? 0 "... well" || diag "$(cat "$T/run.log")"
    like "$(tail -n 1 "$T/run.log")" '^good$' "... with the right results"
    ok "... and its GPUs are free" wait_for 10 free_is '[100, 100, 100, 100]'
else
    skip "the CUDA programs are not built" 9
fi

# --- killed at a write of the journal

for fault in 2:torn 5 7:torn 8; do
    stop "$server"
    rm -f "$T/gpu1.state/leases.db"*
    : > "$T/gpu1.ready"
    again
    stop "$server"
    rm "$T/gpu1.ready"
    (RGPU_TEST_KILL_AT_WRITE=$fault exec "$build/sbin/rgpud" --config "$T/gpu1.conf" --ready-file \
        "$T/gpu1.ready") > "$T/fault.log" 2>&1 &
    server=$!
    ready_or_dead() { [ -s "$T/gpu1.ready" ] || tap_gone "$server"; }
    wait_for 20 ready_or_dead
    granted=0
    for i in 1 2 3 4; do
        api POST /v1/offers '{"gpus": 1, "owner": {"uid": 0, "host": "here", "pid": 1}}'
        [ "$code" = 200 ] || break
        api POST "/v1/offers/$(json 'j["id"]')/accept"
        [ "$code" = 200 ] || break
        granted=$((granted + 1))
    done
    wait "$server" 2>/dev/null
    status=$?
    : > "$T/gpu1.ready"
    again
    api GET /v1/leases
    kept=$(json 'len(j["leases"])')
    is "$status" 137 "killed at write $fault of its journal"
    ok "... $granted leases answered, $kept kept" test "$kept" = "$granted" -o "$kept" = \
        $((granted + 1))
done
done_testing
