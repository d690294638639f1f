#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Offers with locks, leases with terms, and the four cases that an administrator knows from the
# field.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu

# Holds N GPUs until $T/go.NAME is there; $T/held.NAME tells that it has them.
hold()  # NAME N [OPTION...]
{
    local name=$1 n=$2
    shift 2
    start "hold.$name" "$rgpu" run -n "$n" "$@" -- sh -c \
        "touch $T/held.$name; until [ -e $T/go.$name ]; do sleep 0.05; done"
}
held() { wait_for 20 test -e "$T/held.$1"; }
free() { "$rgpu" list | tail -n 1; }
all_free() { free | awk '{ exit !($1 == $3) }'; }
let_go() { touch "$T/go.$1"; }
servers_of() { "$rgpu" leases --json | json_value '[l["server"] for l in j["leases"]]'; }

want='{"gpus": 2, "owner": {"uid": 0, "host": "here", "pid": 1}}'

# --- one server of two, spoken to without our client

rgpud small 'offer_timeout = "2s"'
small=$control
api POST /v1/offers "$want"
is "$code $(json 'j["answer"], len(j["gpus"])')" "200 ('now', 2)" "a free server offers now"
id=$(json 'j["id"]')
api POST /v1/offers "$want"
is "$(json 'j["answer"]')" later "what one client is offered is locked for the next"
like "$(json 'j["reason"]')" '0 of its 2 GPUs have enough free now, 2 are wanted' \
    "... with the reason in words"
offered_again() { api POST /v1/offers "$want" && [ "$(json 'j["answer"]')" = now ]; }
ok "a lock that nobody accepts expires" wait_for 10 offered_again
api POST "/v1/offers/$id/accept"
is "$code" 404 "an expired offer cannot be accepted"
like "$(json 'j["error"]["text"]')" "there is no offer ${id:0:8} here" "... and the answer says so"
# The next two are done within two seconds, or again.
rejected()
{
    api POST /v1/offers "$want" && api DELETE "/v1/offers/$(json 'j.get("id")')" &&
        [ "$code" = 200 ]
}
ok "an offer is rejected" wait_for 30 rejected
accepted()
{
    api POST /v1/offers "$want" && api POST "/v1/offers/$(json 'j.get("id")')/accept" &&
        [ "$code" = 200 ]
}
wait_for 30 accepted
is "$code $(json 'len(j["leases"][0]["secret"])')" "200 64" \
    "an offer is accepted: a lease with a secret of 32 bytes"
lease=$(json 'j["leases"][0]["id"]')
secret=$(json 'j["leases"][0]["secret"]')
api GET /v1/leases
unlike "$body" "$secret" "a list of leases has no secrets"
api DELETE "/v1/leases/$lease"
is "$(json 'j["released"]')" 1 "the lease is released"
api DELETE "/v1/leases/$lease"
is "$code" 404 "... and then is not there any more"
api POST /v1/offers '{"gpus": 3, "owner": {"uid": 0, "host": "here", "pid": 1}}'
is "$(json 'j["answer"], j["reason"]')" "('never', 'it has 2 GPUs, 3 are wanted')" \
    "more than there are is never"
api POST /v1/offers \
    '{"gpus": 1, "memory": 1073741824, "owner": {"uid": 0, "host": "here", "pid": 1}}'
like "$(json 'j["answer"], j["reason"]')" "never.*largest has 64M" \
    "more memory than a GPU has is never"
unlike "$(cat "$T/small.log")" "$secret" "the log holds no secret"

# --- two servers

rgpud big 'softgpu_devices = 4'
big=$control
clients "small=$small" "big=$big"

hold first 2
held first
is "$(servers_of)" small "ain't no pins: a request of 2 goes to the server of 2"
hold second 4
ok "... so that one of 4 still fits" held second
let_go first; let_go second
ok "both give everything back" wait_for 10 all_free

try 20 "$rgpu" run -n 6 -- true
is "$rc" 121 "kicked in the shins: 6 wanted, no server has 6: exit status 121 at once"
like "$err" "never.*big: it has 4 GPUs, 6 are wanted" "... and says why"

rm -f "$T"/held.* "$T"/go.*
rgpud big2 'softgpu_devices = 4'
clients "big=$big" "big2=$control"
for i in 1 2 3; do hold "w$i" 2; done
ok "everybody wins: three clients of 2 on two servers of 4" eval 'held w1 && held w2 && held w3'
is "$(free)" "2 of 8 GPUs free" "... all three at once"
for i in 1 2 3; do let_go "w$i"; done
ok "... and all comes back" wait_for 10 all_free

hold s1 3
hold s2 3
held s1 && held s2
hold s3 2 --wait 30s
ok "somebody spins: two hold 3 of 4 each, the third waits for 2" wait_for 10 grep -q \
    'waiting for GPUs' "$T/hold.s3.log"
is "$([ -e "$T/held.s3" ]; echo $?)" 1 "... and has nothing yet"
let_go s1
ok "... and gets them when the first ends" held s3
let_go s2; let_go s3
wait_for 10 all_free

# --- a client that dies

hold dead 2
held dead
holder=$pid
kill -9 "$holder"
ok "the GPUs of a client that was killed come back when its term has run out" wait_for 15 all_free
let_go dead
like "$(cat "$T/big.log" "$T/big2.log")" 'lease [0-9a-f]{8}: expired' "... and the log says so"

sed -i 's/^term = .*/term = "300s"/' "$T/rgpu.conf"
rm -f "$T"/held.*
hold long 2
held long
kill -9 "$pid"
ok "... and long before a long term has: its connection closed" wait_for 15 all_free
let_go long
like "$(cat "$T/big.log" "$T/big2.log")" "lease [0-9a-f]{8}: its holder's connection closed" \
    "... and the log says that"
done_testing
