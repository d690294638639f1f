#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Whatever strangers send, to rgpud's ports, as rgpu.conf, as a lease file, or as a server to a
# program: nothing falls over, nobody gets in, and no memory is taken for it. RGPU_LONG=1: for
# minutes.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
scale=$([ -n "${RGPU_LONG:-}" ] && echo 30 || echo 1)
fuzz() { try 900 python3 "$root/t/lib/fuzz.py" "$@"; }
rss() { sed -n 's/^VmRSS:[[:space:]]*\([0-9]*\).*/\1/p' "/proc/$server/status"; }
healthy() { api GET /v1/health && [ "$code" = 200 ]; }
same() { [ -e "/proc/$server" ] && ! tap_gone "$server"; }

rgpud gpu1 'warm = false' 'handshake_timeout = "2s"' 'softgpu_memory = "64M"'
server=$pid
fuzz control "$control" $((600 * scale))
is "$rc" 0 \
    "requests of every shape, no credential needed: none is answered by an error of rgpud's own" ||
    diag "$out$err"
note "$out"
like "$out" '200:.*400:' "... and good ones were among them"
ok "... rgpud serves on, the same process" eval 'same && healthy'
unlike "$(cat "$T/gpu1.log")" 'exception|terminate|assert' "... and its log knows of nothing"

before=$(rss)
fuzz flood "$control" $((4 * scale)) "$server"
is "$rc" 0 "requests as large and as slow as can be" || diag "$err"
note "memory of rgpud: $before KiB before, $out KiB at most"
# 1024 connections of 64 KiB are what it may hold.
ok "... take a bounded amount of memory" test "$out" -lt $((before + 96 * 1024))
ok "... and leave rgpud as it was" wait_for 20 healthy

# One of them may have been a good request to drain.
for drained in '{}' '{"gpu": "0"}' '{"gpu": "1"}'; do api POST /v1/resume "$drained"; done
api POST /v1/offers '{"gpus": 1, "owner": {"uid": 0, "host": "here", "pid": 1}}'
taken()
{
    api POST /v1/offers '{"gpus": 1, "owner": {"uid": 0, "host": "here", "pid": 1}}' &&
        [ "$(json 'j["answer"]')" = now ]
}
ok "the offers of the flood run out" wait_for 20 taken
api POST "/v1/offers/$(json 'j["id"]')/accept"
lease=$(json 'j["leases"][0]["id"]') secret=$(json 'j["leases"][0]["secret"]')
fuzz hello "$data" $((150 * scale)) "$lease" "$secret"
is "$rc" 0 "hellos with changed bytes: nobody gets in who changed what the proof is about" ||
    diag "$out$err"
like "$out" 'accepted [1-9]' "... and whoever did not gets in"
fuzz snapshot "$data" "$lease" "$secret"
export RGPU_FUZZ_SNAPSHOT=$out
like "$out" "$(printf 'rgpu software GPU' | od -An -tx1 | tr -d ' \n')" "a worker's snapshot"
ok "... rgpud serves on, the same process" eval 'same && healthy'
no_worker() { [ -z "$(workers_of "$server")" ]; }
ok "... and no worker is left" wait_for 20 no_worker

auth="method = \"key\"
key_file = \"$T/key\""
(umask 077; head -c 32 /dev/urandom > "$T/key")
rgpud gpu2
server=$pid
fuzz control "$control" $((200 * scale)) closed
is "$rc" 0 "where a key is needed nobody who has none is served more than health" || diag "$out$err"
like "$out" '401:' "... and most are told so"
ok "... rgpud serves on" healthy

clients "gpu2=$control"
fuzz config "$build/bin/rgpu" $((60 * scale)) "$T/gpu1.conf"
is "$rc" 0 "rgpu.conf with changed bytes is read, or refused with a reason" || diag "$out$err"
like "$out" 'refused [1-9]' "... as it was"
fuzz lease "$interpose/libcuda.so.1" $((40 * scale))
is "$rc" 0 "so are lease files" || diag "$out$err"
fuzz client "$interpose/libcuda.so.1" $((40 * scale))
is "$rc" 0 "a server that says nonsense does not bring a program down" || diag "$out$err"
done_testing
