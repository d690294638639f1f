#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The audit: each grant, refusal, end of a lease and administrator's act is one line with who, what,
# and from where, and no secret is in it.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu

acts() { python3 -c 'import json, sys
for line in open(sys.argv[1]):
    e = json.loads(line)
    print(e["act"], e.get("what", "-").split()[0], e.get("uid", "-"), e.get("from", "-"),
          e.get("pid", "-"), e.get("why", "-"))' "$1"; }
has() { like "$(acts "$T/state/audit")" "(^|$(printf '\n'))$1" "$2"; }

mkdir "$T/state" && chmod 777 "$T/state"
rgpud gpu1 'warm = false' 'audit = "json"' "audit_file = \"$T/state/audit\""
clients gpu1="$control"
"$rgpu" request -n 1 --wait 10s -o "$T/gpus" 2> /dev/null
secret=$(json 'j["servers"][0]["secret"]' "$(cat "$T/gpus")")
like "$secret" '^[0-9a-f]{64}$' "a lease with a secret"
"$rgpu" run --lease "$T/gpus" -- "$build/cuda/vector_add-static" > "$T/out" 2>&1
"$rgpu" drain gpu1:0 --reason 'a test' > "$T/out" 2>&1
"$rgpu" resume gpu1:0 > "$T/out" 2>&1
"$rgpu" release --file "$T/gpus" > "$T/out" 2>&1
me=$(id -u)
has "grant lease $me 127.0.0.1 [0-9]+ -" "a grant: who, from where, which process"
has "drain GPU-[^ ]* $me 127.0.0.1 - a test" "a drain, and its reason"
has "resume GPU-[^ ]* $me 127.0.0.1 - -" "its end"
has "end lease $me 127.0.0.1 [0-9]+ released" "the end of the lease, and who ended it"
is "$(acts "$T/state/audit" | wc -l)" 4 "each of these is one line, and there are no others"
is "$(stat -c %a "$T/state/audit")" 600 "nobody else reads them"

api POST /v1/offers '{"gpus": 1, "gpu": 2}'
is "$code" 400 "a request that is refused"
has "refuse POST $me 127.0.0.1 - .*lacks .owner" "... is a line, with the reason"
try 20 python3 "$root/t/lib/data_client.py" "$data" "$(printf '00%.0s' $(seq 16))" \
    "$(printf '00%.0s' $(seq 32))"
like "$out" "refused" "a data connection without a lease"
seen() { acts "$T/state/audit" | grep -q "refuse data - 127.0.0.1.*lease"; }
ok "... is a line, too" wait_for 10 seen

# A term that runs out, which nobody has asked for.
api POST /v1/offers '{"gpus": 1, "term_ms": 500, "owner": {"uid": 0, "host": "here", "pid": 1}}'
offer=$(json 'j["id"]')
api POST "/v1/offers/$offer/accept"
is "$code" 200 "a lease with a short term"
expired() { acts "$T/state/audit" | grep -q "end lease - - 1 expired"; }
ok "its end is a line of nobody's" wait_for 20 expired

# A flood of strangers.
for ((i = 0; i < 200; i++)); do
    api POST /v1/offers "{\"gpu$i\": 2}"
done
ok "members of the cluster are heard" test "$(grep -c '"act":"refuse"' "$T/state/audit")" -ge 200

not_ok "no line and no log has the secret" grep -qF "$secret" "$T/state/audit" "$T/gpu1.log"

rgpud gpu2 'warm = false' 'audit = "text"'
clients gpu2="$control"
"$rgpu" request -n 1 --wait 10s -o "$T/gpus2" 2> /dev/null
like "$(cat "$T/gpu2.log")" 'audit: act=grant what="lease [0-9a-f]{8}" gpus="1 GPU" owner_uid=' \
    "as text in the log"
done_testing
