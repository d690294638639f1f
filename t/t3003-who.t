#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Who may ask: a key file, and MUNGE with its users.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu

# --- a key file

(umask 077; head -c 32 /dev/urandom > "$T/key"; head -c 32 /dev/urandom > "$T/other.key")
auth="method = \"key\"
key_file = \"$T/key\""
rgpud gpu1
port=$control
clients "gpu1=$port"
try 20 "$rgpu" run -n 2 -- sh -c 'exit 3'
is "$rc" 3 "with the key a program runs" || diag "$err"
api GET /v1/inventory
is "$code" 401 "without a credential nothing is told"
like "$(json 'j["error"]["text"]')" 'method = "key".*key_file' \
    "... and the answer says what is needed"
api GET /v1/health
is "$code" 200 "but health is"

sed -i "s|^key_file.*|key_file = \"$T/other.key\"|" "$T/rgpu.conf"
try 20 "$rgpu" run -- true
is "$rc" 125 "with another key nothing runs"
like "$err" "server gpu1 \(127.0.0.1:$port\): a credential made with this server's key is needed" \
    "... and the error says why"
clients "gpu9=$port"
try 20 "$rgpu" list
like "$out" "a credential made with this server.s key is needed" \
    "a credential for another server is refused"

# One request, taken from the wire and sent again.
replay()
{
    python3 "$py/replay_request.py" "$T/key" "$port"
}
is "$(replay)" "200 401 401 " "a credential is good once, and for its own request"
chmod 644 "$T/key"
clients "gpu1=$port"
try 20 "$rgpu" list
like "$rc $err" "^1 .*key is open to all users: chmod o= $T/key" \
    "a key that all can read is refused, with the cure"

# --- MUNGE

PATH=$PATH:/usr/sbin
munge_tests=15
if [ "$(id -u)" != 0 ]; then
    skip "MUNGE with several users needs root" $munge_tests
elif ! command -v munged > /dev/null; then
    skip "munged is not installed" $munge_tests
else
    # Other users may not be able to enter where the build is, as below /root.
    cp "$rgpu" "$T/rgpu" && rgpu=$T/rgpu
    mkdir -m 755 "$T/munge"
    (umask 077; head -c 128 /dev/urandom > "$T/munge.key")
    start munged munged --foreground --key-file="$T/munge.key" --socket="$T/munge/socket" \
        --pid-file="$T/munge/pid" \
        --log-file="$T/munge.log" --seed-file="$T/munge/seed" --force
    wait_for 10 test -S "$T/munge/socket" ||
        bail "munged does not start: $(cat "$T/munged.log" "$T/munge.log")"
    auth="method = \"munge\"
munge_socket = \"$T/munge/socket\"
admins = [\"root\", \"65533\"]"
    rgpud gpu2
    clients "gpu2=$control"
    script='#!/bin/sh\nuid=$1\nshift\nexec setpriv --reuid="$uid" --regid=65534 --clear-groups '
    script+='env HOME=/ TMPDIR=/tmp "$@"\n'
    printf '%b' "$script" > "$T/as"
    chmod 755 "$T/as"
    as=$T/as

    try 20 "$rgpu" run -- sh -c "$rgpu leases --json"
    is "$rc $(json '[l["owner"]["user"] for l in j["leases"]]' "$out")" "0 ['root']" \
        "root leases, and sees it"
    try 20 "$as" 65534 "$rgpu" run -- sh -c "$rgpu leases --json"
    is "$rc $(json '[l["owner"]["uid"] for l in j["leases"]]' "$out")" "0 [65534]" "so does a user"
    start holder "$rgpu" run -- sleep 60
    holder=$pid
    one_lease() { [ "$("$rgpu" leases --json | grep -c '"id"')" = 1 ]; }
    wait_for 10 one_lease
    lease=$(json 'j["leases"][0]["id"]' "$("$rgpu" leases --json)")
    is "$(json 'j["leases"]' "$("$as" 65534 "$rgpu" leases --json)")" "[]" \
        "a user does not see another's lease"
    like "$("$as" 65534 "$rgpu" list)" '\(another user\)' "... only that the GPU is in use"
    try 20 "$as" 65534 "$rgpu" release "$lease"
    is "$rc" 1 "... and cannot end it"
    ok "... it is still there" one_lease
    # Another's uid in the body: signed by munge as the asker, said by the body to be root's.
    body='{"gpus": 1, "owner": {"uid": 0, "host": "h", "pid": 1}}'
    signed()
    {
        printf 'rgpu control 1\ngpu2\nPOST\n/v1/offers\n%s' \
            "$(printf %s "$body" | sha256sum | cut -d' ' -f1)"
    }
    offer()
    {
        code=$(curl -s -o "$T/.body" -w '%{http_code}' -H "Authorization: MUNGE $1" -H \
            'Content-Type: application/json' --data-binary "$body" \
            "http://127.0.0.1:$control/v1/offers")
    }
    credential=$(signed | "$as" 65534 munge -S "$T/munge/socket")
    offer "$credential"
    is "$code" 400 "a user cannot lease for another"
    like "$(cat "$T/.body")" 'uid 65534 may not lease for uid 0' "... and is told"
    credential=$(signed | "$as" 65533 munge -S "$T/munge/socket")
    offer "$credential"
    is "$code" 200 "an administrator can"
    offer "$credential"
    is "$code" 401 "a MUNGE credential is good once"
    like "$(cat "$T/.body")" 'Replayed' "... and the answer says so"
    credential=$(printf 'anything' | munge -S "$T/munge/socket")
    offer "$credential"
    is "$code" 401 "a credential for something else is refused"
    try 20 "$as" 65533 "$rgpu" release "$lease"
    is "$rc $out" "0 1 released" "an administrator ends another's lease"
    stop "$holder"
    clients "gpu7=$control"
    try 20 "$rgpu" list
    like "$out" 'is for server "gpu7" and this is "gpu2": give it the same name' \
        "names that differ are explained"
    sed -i 's|^munge_socket.*|munge_socket = "/nonexistent/munge"|' "$T/rgpu.conf"
    try 20 "$rgpu" list
    like "$out$err" 'MUNGE gives no credential.*start munged' "no munged: the error says what to do"
fi
done_testing
