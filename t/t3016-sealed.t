#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The secret of a lease crosses the control port, and nobody who listens there can read it.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu

rgpud gpu1 'softgpu_memory = "256M"' 'softgpu_devices = 1'
start proxy python3 "$root/t/lib/record_proxy.py" "$control" "$T/record"
has_port() { [ -s "$T/proxy.log" ]; }
wait_for 20 has_port || bail "no proxy: $(cat "$T/proxy.log")"
clients gpu1="$(cat "$T/proxy.log")"

try 20 "$rgpu" request -n 1 --wait 10s -o "$T/gpus"
is "$rc" 0 "GPUs are requested" || diag "$err"
id=$(json 'j["servers"][0]["lease"]' "$(cat "$T/gpus")") \
    secret=$(json 'j["servers"][0]["secret"]' "$(cat "$T/gpus")")
like "$secret" '^[0-9a-f]{64}$' "the lease file has the secret"
like "$(cat "$T/record")" "$id" "the lease is seen on the network"
like "$(cat "$T/record")" '"sealed": ?"[0-9a-f]{160}"' "... with a sealed secret"
unlike "$(cat "$T/record")" "$secret" "... and the secret is not"
try 60 "$rgpu" run --lease "$T/gpus" -- "$build/cuda/vector_add-static"
is "$rc" 0 "a program uses it" || diag "$err"

# --- what is asked for by hand

key=$(printf '09%.0s' $(seq 32))
api GET "/v1/leases?secrets=1&key=$key"
is "$code $(json '"secret" in j["leases"][0], len(j["leases"][0]["sealed"])')" "200 (False, 160)" \
    "who sends a key gets no secret in the clear"
api GET "/v1/leases?secrets=1"
is "$code $(json 'j["leases"][0]["secret"]')" "200 $secret" "who sends none gets it, on loopback"
for bad in 00 zz "${key}09" "$(printf '00%.0s' $(seq 32))"; do
    api GET "/v1/leases?secrets=1&key=$bad"
    is "$code" 400 "a key that is none is refused: ${bad:0:8}"
    like "$body" "X25519 public key" "... and the answer says what it must be"
done
api POST /v1/offers '{"gpus": 1, "owner": {"uid": 0, "host": "here", "pid": 1}}'
like "$(json 'j["answer"]')" later "the GPU is leased"
try 20 "$rgpu" release --file "$T/gpus"
api POST /v1/offers '{"gpus": 1, "owner": {"uid": 0, "host": "here", "pid": 1}}'
offer=$(json 'j["id"]')
api POST "/v1/offers/$offer/accept?key=00"
is "$code" 400 "an offer is not accepted for a key that is none"
api POST "/v1/offers/$offer/accept?key=$key"
is "$code" 200 "... and can be accepted after that" || diag "$body"

# --- not on loopback

away=$(hostname -I 2> /dev/null | tr ' ' '\n' | grep -m 1 '^[0-9.]*$')
if [ -z "$away" ]; then
    skip "this host has no other address" 2
else
    head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' > "$T/key"
    chmod 600 "$T/key"
    auth="method = \"key\"
key_file = \"$T/key\""
    [ "$(id -u)" = 0 ] && worker_user=nobody
    rgpud gpu2 'listen = "0.0.0.0"'
    signed()  # TARGET
    {
        python3 "$py/signed_get.py" "$T/key" "$away" "$control" "$1"
    }
    like "$(signed '/v1/leases?secrets=1')" '^400 .*not sent in the clear: the request needs key=' \
        "from elsewhere, secrets are refused without a key"
    is "$(signed "/v1/leases?secrets=1&key=$key")" 200 "... and told with one"
fi

done_testing
