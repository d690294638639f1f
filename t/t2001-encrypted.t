#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs over encrypted data connections: they run as they do without, a wire-tapper sees nothing
# of them, and nobody gets in or stays in who changes a byte or does not have the key.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu

rgpud gpu1 'encrypt = true' 'softgpu_memory = "512M"'
encrypted_rgpud=$pid encrypted_data=$data
clients "gpu1=$control"
sed -i "/^interposer_dir/a library_path = [\"$cuda_libs\"]" "$T/rgpu.conf"
remote() { try 120 "$rgpu" run -n "$1" --wait 30s -- "${@:2}"; }

for program in vector_add streams two_device_sum warp_reduce unasked soft_graphs graph_host \
    mistakes; do
    remote 2 "$build/cuda/$program-static"
    is "$rc" 0 "$program" || diag "$out$err"
done
remote 1 env RGPU_SYNC=1 "$build/cuda/streams-shared"
is "$rc" 0 "shared cudart, and every call waits" || diag "$out$err"
idle() { [ -z "$(workers_of "$encrypted_rgpud")" ]; }
ok "no worker is left" wait_for 5 idle
unlike "$(cat "$T/gpu1.log")" 'encryption:|connection closed' \
    "no connection ended before its program did"

# --- a program with an OpenSSL of its own, which forks, and ends without a word

remote 1 python3 "$py/own_openssl.py"
is "$rc" 0 "a program that uses OpenSSL itself, and forks" || diag "$err"
like "$out" 'round trip True.*after the fork True.*its own OpenSSL works True' \
    "... gets its data back, and its own OpenSSL is undisturbed"
like "$out" 'copies of libcrypto 2' "... as ours is another copy"
like "$out" 'child 3' "... and its child is told that CUDA does not go through a fork"

# --- who listens, and who meddles

tapped()  # LOG, DATA PORT, SPOIL...: runs a program through a proxy
{
    local file=$T/$1.json
    start "proxy-$1" python3 "$root/t/lib/record_proxy.py" "$2" "$T/$1.record" "${@:3}"
    local proxy=$pid
    wait_for 10 test -s "$T/proxy-$1.log"
    "$rgpu" request -n 1 --file "$file" > /dev/null || diag "no lease"
    chmod u+w "$file"
    sed -i "s/127\.0\.0\.1:$2/127.0.0.1:$(cat "$T/proxy-$1.log")/" "$file"
    try 60 env RGPU_LEASE="$file" LD_LIBRARY_PATH="$interpose:$cuda_libs" \
        "$build/cuda/vector_add-static"
    "$rgpu" release --file "$file" > /dev/null
    stop "$proxy"
}
seen() { LC_ALL=C grep -aqE 'rgpu software GPU|vector_?add|\.target sm' "$T/$1.record"; }
tapped encrypted "$encrypted_data"
is "$rc" 0 "a program whose connection is recorded" || diag "$err"
ok "... its bytes are on the record" test "$(stat -c %s "$T/encrypted.record")" -gt 2000
not_ok "... but nothing of what it said or was told" seen encrypted

spoilt=0
# In the hello, in the TLS handshake, in what follows.
for at in 6 60 230 300 600 900; do
    tapped "spoilt-$at" "$encrypted_data" "$at"
    [ "$rc" = 0 ] || spoilt=$((spoilt + 1))
done
is "$spoilt" 6 "a program with one byte of its stream changed fails, wherever that byte is"
ok "rgpud serves on" remote 1 true
try 20 python3 "$root/t/lib/data_client.py" "$encrypted_data" "$(printf '00%.0s' $(seq 16))" \
    "$(printf '00%.0s' $(seq 32))"
like "$out" 'refused: this lease is not known here' \
    "who does not hold a lease does not come as far as TLS"
tls_refused() { grep -q 'encryption: the other side does not hold this lease' "$T/gpu1.log"; }

# A client that holds the secret and then says no TLS, or TLS with another key, gets a worker that
# hangs up.
"$rgpu" request -n 1 --file "$T/plain.json" > /dev/null
try 20 python3 "$root/t/lib/data_client.py" "$encrypted_data" \
    "$(json 'j["servers"][0]["lease"]' "$(cat "$T/plain.json")")" \
    "$(json 'j["servers"][0]["secret"]' "$(cat "$T/plain.json")")" --speak "GET / HTTP/1.1"
like "$out" 'accepted proved' "who has the secret is let in"
ok "... and who then speaks no TLS is refused" wait_for 20 tls_refused
"$rgpu" release --file "$T/plain.json" > /dev/null

# --- without OpenSSL on the program's host

# The only libssl that the loader finds is none.
mkdir "$T/broken"
for version in 3 1.1; do echo none > "$T/broken/libssl.so.$version"; echo \
    none > "$T/broken/libcrypto.so.$version"; done
try 60 "$rgpu" run -n 1 -- env LD_LIBRARY_PATH="$interpose:$cuda_libs:$T/broken" \
    "$build/cuda/vector_add-static"
isnt_0() { [ "$rc" != 0 ]; }
ok "without OpenSSL there is no GPU" isnt_0
like "$err" 'server gpu1 .*[[]rgpud] encrypt.*no OpenSSL here .*install libssl3' \
    "... and the error names the cure"

# --- the same without encryption: the record tells, so the test above can

rgpud gpu2 'softgpu_memory = "512M"'
clients "gpu2=$control"
tapped plain "$data"
is "$rc" 0 "without encryption" || diag "$err"
ok "... the record holds names and code" seen plain
done_testing
