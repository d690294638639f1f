#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The control port in TLS: the client knows the server by its pinned key, and an attacker who reads,
# forges, downgrades, replays or cuts gets nothing.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu

# conf NAME=PORT...: as clients, and behind each [[server]] the lines that $say has.
conf() { clients "$@" && printf '%s\n' "${say[@]}" >> "$T/rgpu.conf"; }
attacker() { start "$@" && wait_for 20 test -s "$T/$1.log" || bail "no $1"; }

rgpud gpu1 'warm = false'
server=$pid first=$control

# --- the key, and its pin

say=()

conf gpu1="$control"
key=$T/gpu1.state/control.key
ok "rgpud makes a key at its first start" test -s "$key"
is "$(stat -c %a "$key")" 600 "... which nobody else can read"
own=$(openssl pkey -in "$key" -pubout -outform DER 2> /dev/null | openssl dgst -sha256 -binary |
    base64)
pattern=${own//+/[+]}
like "$(cat "$T/gpu1.log")" "the key is sha256//$pattern" "... says its pin in the log"
try 20 "$rgpu" --config "$T/gpu1.conf" pin --own
is "$rc $out" "0 sha256//$own" "rgpu pin --own shows it on that host"
try 20 "$rgpu" pin
is "$rc" 0 "rgpu pin asks the servers" || diag "$err"
like "$out" "gpu1 .*sha256//$pattern +no pin" "... shows the key, and that rgpu.conf has no pin"
try 20 "$rgpu" list
is "$rc" 0 "without a pin the server is asked in the clear"

printf '# a comment\n' >> "$T/rgpu.conf"
try 20 "$rgpu" pin gpu1 --store
is "$rc" 0 "rgpu pin --store writes it" || diag "$err"
is "$(grep -c "^pin = \"sha256//$own\"$" "$T/rgpu.conf")" 1 "... into the server's part"
is "$(tail -n 1 "$T/rgpu.conf")" "# a comment" "... and leaves what else is there"
try 20 "$rgpu" pin
like "$out" "gpu1 .*sha256//$pattern +pinned" "rgpu pin says that it is pinned"

# --- who reads

start proxy python3 "$root/t/lib/record_proxy.py" "$control" "$T/record"
wait_for 20 test -s "$T/proxy.log" || bail "no proxy"
say=("pin = \"sha256//$own\"")
conf gpu1="$(cat "$T/proxy.log")"
try 20 "$rgpu" request -n 1 --wait 10s -o "$T/gpus"
is "$rc" 0 "GPUs are requested in TLS" || diag "$err"
id=$(json 'j["servers"][0]["lease"]' "$(cat "$T/gpus")")
ok "what crosses the network is there to be read" test -s "$T/record"
unlike "$(tr -d '\0' < "$T/record")" "$id|HTTP|Authorization|inventory" "... and tells nothing"
try 60 "$rgpu" run --lease "$T/gpus" -- "$build/cuda/vector_add-static"
is "$rc" 0 "a program uses the lease" || diag "$err"
try 20 "$rgpu" release --file "$T/gpus"
is "$rc" 0 "... and it is released in TLS" || diag "$err"

# --- who replays, forges, downgrades, cuts

try 30 python3 "$root/t/lib/tls_peer.py" replay "$first" "$T/record.client"
is "$rc $out" "0 nothing" "what a client sent once is worth nothing"

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=127.0.0.1 \
    -addext subjectAltName=IP:127.0.0.1 -keyout "$T/other.key" -out "$T/other.pem" 2> /dev/null
attacker forger python3 "$root/t/lib/tls_peer.py" forge "$T/other.pem" "$T/other.key"
conf gpu1="$(cat "$T/forger.log")"
try 20 "$rgpu" list
is "$rc" 123 "a server with another key is none"
like "$out" "gpu1.*its key is not the one that rgpu.conf pins: somebody is in between, or the key" \
    "... the error says so, and what to compare"
try 20 "$rgpu" pin gpu1 --store
is "$rc" 1 "its pin is not stored in the place of another"
like "$err" "another key than the one that .* pins, and nothing is stored.*--replace" \
    "... without --replace"
try 20 "$rgpu" pin --json
is "$(json '[(s["server"], s["pinned"]) for s in j]' "$out")" "[('gpu1', False)]" \
    "rgpu pin --json says that it is not pinned"

# A libcurl that cannot pin would ask whoever answers.
mkdir "$T/old"
ok "a libcurl that knows no pins" "${CC:-cc}" -shared -fPIC -o "$T/old/libcurl.so.4" \
    "$root/t/lib/old_curl.c" -ldl
real=$(ldconfig -p | sed -n 's/.*libcurl\.so\.4 .*x86-64.*=> //p' | head -n 1)
try 20 env LD_LIBRARY_PATH="$T/old" REAL="$real" "$rgpu" list
is "$rc" 123 "... asks nobody"
like "$out" "this host's libcurl cannot ask in TLS 1.3 with a pinned key" "... and says why"

attacker clear python3 "$root/t/lib/tls_peer.py" clear
conf gpu1="$(cat "$T/clear.log")"
try 20 "$rgpu" list
is "$rc" 123 "who has a pin never asks in the clear"
like "$out" "no TLS with it" "... and says that there is no TLS"

attacker cutter python3 "$root/t/lib/tls_peer.py" cut
conf gpu1="$(cat "$T/cutter.log")"
try 20 "$rgpu" list
is "$rc" 123 "a connection that is cut is a server that does not answer" || diag "$err"

try 60 python3 "$root/t/lib/tls_peer.py" silent "$first" 50
is "$out" 50 "handshakes that are begun and not ended are closed in time"
control=$first
api GET /v1/health
is "$code" 200 "... and keep nobody else from being served"

# --- another key, without a pause

before=$own
try 20 "$rgpu" --config "$T/gpu1.conf" pin --make-next
is "$rc" 0 "the next key is made beside the one in use" || diag "$err"
own=${out#sha256//}
say=("pin = \"sha256//$before;sha256//$own\"")
conf gpu1="$first"
try 20 "$rgpu" list
is "$rc" 0 "with both pins the old key is good"
try 20 "$rgpu" --config "$T/gpu1.conf" pin --use-next
is "$rc $out" "0 sha256//$own" "the next key is put in its place"
uses_next() { "$rgpu" pin | grep -qF "$own"; }
ok "rgpud uses it without a restart" wait_for 20 uses_next
ok "... it is the same process" test -e "/proc/$server"
try 20 "$rgpu" list
is "$rc" 0 "... and with both pins the new key is good"
say=("pin = \"sha256//$before\"")
conf gpu1="$first"
try 20 "$rgpu" list
is "$rc" 123 "the old pin alone is worth nothing any more"

# --- plain and TLS servers in one pool; servers that take TLS alone

rgpud gpu2 'warm = false' 'tls = "off"'
plain=$control
rgpud gpu3 'warm = false' 'tls = "required"'
strict=$control
say=()
conf gpu1="$first" gpu2="$plain" gpu3="$strict"
try 20 "$rgpu" pin gpu1 gpu3 --store
is "$rc" 0 "the pins of two of three servers are stored" || diag "$err"
try 20 "$rgpu" list --json
is "$rc $(json 'len([s for s in j["servers"] if "error" not in s])' "$out")" "0 3" \
    "all three servers are asked at once" || diag "$out $err"
try 20 "$rgpu" pin gpu2
is "$rc" 123 "a server without TLS has no key"
say=()
conf gpu3="$strict"
try 20 "$rgpu" list
is "$rc" 123 "a server that takes TLS alone refuses who has no pin"
like "$out" "takes TLS alone .*needs a pin, which rgpu pin NAME shows" \
    "... and says what is missing"

# --- a certificate that an authority has signed

sign() # NAME
{
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" \
        -keyout "$T/$1.key" -out "$T/$1.csr" 2> /dev/null
    printf 'subjectAltName=IP:127.0.0.1' > "$T/$1.ext"
    openssl x509 -req -in "$T/$1.csr" -CA "$T/ca.pem" -CAkey "$T/ca.key" -CAcreateserial -days 1 \
        -extfile "$T/$1.ext" -out "$T/$1.pem" 2> /dev/null
}
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=authority \
    -keyout "$T/ca.key" -out "$T/ca.pem" 2> /dev/null
sign gpu4
chmod 600 "$T/gpu4.key"
chown --reference="$T/gpu1.state" "$T/gpu4.key"
rgpud gpu4 'warm = false' "tls_key = \"$T/gpu4.key\"" "tls_certificate = \"$T/gpu4.pem\""
say=("ca_file = \"$T/ca.pem\"")
conf gpu4="$control"
try 20 "$rgpu" list
is "$rc" 0 "a server is known by the authority that signed its certificate" || diag "$err"
say=("ca_file = \"$T/other.pem\"")
conf gpu4="$control"
try 20 "$rgpu" list
is "$rc" 123 "... and by no other"
like "$out" "its certificate is not what ca_file asks for" "... which the error says"

# --- mistakes

for wrong in sha256//abc "md5//$own" ";sha256//$own"; do
    say=("pin = \"$wrong\"")
    conf gpu1="$first"
    try 20 "$rgpu" list
    like "$rc $err" "^1 .*is no pin: it is sha256// and 44 letters" "a pin must be one: $wrong"
done
chmod 644 "$T/gpu4.key"
sed "s/gpu4.state/gpu5.state/" "$T/gpu4.conf" > "$T/gpu5.conf"
try 20 "$build/sbin/rgpud" --config "$T/gpu5.conf" --ready-file "$T/again.ready"
like "$rc $err" "^1 .*gpu4.key: other users may read" "a key that others can read is refused"
done_testing
