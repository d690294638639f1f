#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Hostile: somebody between a program and rgpud, who hears and changes all but has neither the
# lease's secret nor the key. He changes nothing unseen, and nothing that he says again is taken,
# also by the next rgpud.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu

# --- the data port

rgpud gpu1 'warm = false' 'softgpu_memory = "16M"'
api POST /v1/offers '{"gpus": 1, "owner": {"uid": 0, "host": "here", "pid": 1}}'
api POST "/v1/offers/$(json 'j["id"]')/accept"
lease=$(json 'j["leases"][0]["id"]') secret=$(json 'j["leases"][0]["secret"]')
between()
{
    try 20 python3 "$root/t/lib/between.py" "$data" "$lease" "$secret" "$1"
    out=${out//$'\n'/, }
}

between none
is "$out" "server accepted, client accepted" "a handshake that is passed on as it is"
while IFS=: read -r change name; do
    between "$change"
    is "$out" "server refused, client refused" "$name"
done <<'EOT'
hold:a program's connection is not made into one that holds
work:one that holds is not made into a program's
lane:a lane is not led to another worker
digest:the digest of the call table is not changed
flags:nobody talks both out of encryption, or into it
EOT
between bits
is "$out" "server accepted, client refused" "what the server takes is not changed on its way"
between accepted
is "$out" "server accepted, client refused" "the client's own proof is no verdict"
between older
like "$out" \
    'server refused: the peer speaks protocol 2, this side 3: install the same rgpu on both' \
    "another version is refused in words"
no_worker() { [ -z "$(workers_of "$pid")" ]; }
ok "none of them has a worker for long" wait_for 10 no_worker
stop "$pid"

# --- a key's credentials, said again to the next rgpud

(umask 077; head -c 32 /dev/urandom > "$T/key")
auth="method = \"key\"
key_file = \"$T/key\""
again() { rm -f "$T/gpu2.ready"; rgpud gpu2 'warm = false' 'softgpu_memory = "16M"'; server=$pid; }
signed()
{
    try 20 python3 "$root/t/lib/signed.py" "$control" gpu2 "$T/key" "$@"
    out=${out//$'\n'/, }
}
again
signed now=0 ahead=50 behind=-20
is "$out" "200, 200, 200" "requests with clocks that are not quite right"
signed now=0 ahead=50 behind=-20
used='401 the credential has been used before'
is "$out" "$used, $used, $used" "each is good once"
kill -9 "$server"
wait "$server" 2> /dev/null
again
signed now=0 ahead=50 behind=-20
is "$out" "$used, $used, $used" "an rgpud that was killed and started again knows them"
signed later=0
is "$out" "200" "... and takes what is new"
stop "$server"
again
signed now=0 ahead=50 later=0
is "$out" "$used, $used, $used" "so does one that was ended and started again"
is "$(stat -c %a "$T/gpu2.state/used-credentials")" 600 "the file is rgpud's own"
clients "gpu2=$control"
try 20 "$rgpu" leases --json
is "$rc" 0 "rgpu is served at once by an rgpud that has just started" || diag "$err"
# Half a record at its end, as a full disk would leave it.
stop "$server"
truncate -s -7 "$T/gpu2.state/used-credentials"
again
signed now=0
is "$out" "$used" "a file that is cut serves for what is left of it"
stop "$server"

# --- MUNGE

PATH=$PATH:/usr/sbin
if [ "$(id -u)" != 0 ] || ! command -v munged > /dev/null; then
    skip "MUNGE needs root and munged" 2
else
    mkdir -m 755 "$T/munge"
    (umask 077; head -c 128 /dev/urandom > "$T/munge.key")
    start munged munged --foreground --key-file="$T/munge.key" --socket="$T/munge/socket" \
        --pid-file="$T/munge/pid" \
        --log-file="$T/munge.log" --seed-file="$T/munge/seed" --force
    wait_for 10 test -S "$T/munge/socket" ||
        bail "munged does not start: $(cat "$T/munged.log" "$T/munge.log")"
    auth="method = \"munge\"
munge_socket = \"$T/munge/socket\""
    again
    credential=$(printf 'rgpu control 1\ngpu2\nGET\n/v1/leases\n%s' \
        "$(printf '' | sha256sum | cut -d' ' -f1)" | munge -S "$T/munge/socket")
    ask()
    {
        curl -s -o "$T/.body" -w '%{http_code}' -H "Authorization: MUNGE $credential" \
            "http://127.0.0.1:$control/v1/leases"
    }
    is "$(ask)" 200 "a MUNGE credential"
    kill -9 "$server"
    wait "$server" 2> /dev/null
    again
    is "$(ask) $(grep -c Replayed "$T/.body")" "401 1" \
        "... is good once, whichever rgpud is asked: munged knows"
fi
done_testing
