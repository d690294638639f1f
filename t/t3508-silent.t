#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Hostile: 1,200 connections that say nothing, at either port, from one address or from 200, and
# again for each that is closed: another client is served at once.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

rgpud gpu1 'warm = false' 'softgpu_memory = "16M"'
server=$pid
api POST /v1/offers '{"gpus": 1, "owner": {"uid": 0, "host": "here", "pid": 1}}'
api POST "/v1/offers/$(json 'j["id"]')/accept"
lease=$(json 'j["leases"][0]["id"]') secret=$(json 'j["leases"][0]["secret"]')

served()  # PORT'S NAME, ARGUMENTS BEHIND THE PORT
{
    try 60 python3 "$root/t/lib/silent.py" "$1" "${!1}" "${@:2}"
    slowest=$(sed -n 's/^slowest \([0-9]*\) ms/\1/p' <<< "$out")
    # A second on an idle machine; tests run side by side here.
    ok "$1 port, 1,200 silent connections from $2: another is served soon: ${slowest:-$out} ms" \
        test "${slowest:-9999}" -lt 5000 || diag "$out$err"
}
for from in one many; do
    served control $from 1200
    served data $from 1200 "$lease" "$secret"
done
like "$(cat "$T/gpu1.log")" \
    'control: connections closed before they sent a request: .*max_silent_of_address' \
    "the log says that some made room"
ok "it has few lines of the data port's: $(logged gpu1 'data port: ')" test \
    "$(logged gpu1 'data port: ')" -lt 150
like "$(cat "$T/gpu1.log")" 'data port: [0-9]+ more were refused, and the log does not name them' \
    "... which say that there were more"
ok "it has few lines of the control port's" test "$(logged gpu1 'control: connections closed')" \
    -le 10
healthy() { api GET /v1/health && [ "$code" = 200 ]; }
ok "rgpud serves on" healthy
ok "... the same process" test -e "/proc/$server"

# One thread looks at all who have proved nothing, however little they say at a time.
threads() { sed -n 's/^Threads:[[:space:]]*//p' "/proc/$server/status"; }
before=$(threads)
for i in $(seq 20); do
    exec {fd}<> "/dev/tcp/127.0.0.1/$data"
    printf 'R' >&"$fd"
    quiet[i]=$fd
done
is "$(threads)" "$before" "20 connections that have proved nothing have no thread"
api POST /v1/offers '{"gpus": 1, "owner": {"uid": 0, "host": "here", "pid": 1}}'
api POST "/v1/offers/$(json 'j["id"]')/accept"
try 60 python3 "$root/t/lib/data_client.py" "$data" "$(json 'j["leases"][0]["id"]')" \
    "$(json 'j["leases"][0]["secret"]')" --slowly
like "$out" '^accepted proved' "beside them one that says its hello a byte at a time is served"
for fd in "${quiet[@]}"; do exec {fd}>&-; done

# A limit of its own.
stop "$server"
rgpud gpu2 'warm = false' 'softgpu_memory = "16M"' 'max_silent_of_address = 2'
for i in 1 2 3; do exec {fd}<> "/dev/tcp/127.0.0.1/$control"; fds[i]=$fd; done
ok "past max_silent_of_address the oldest of the address is closed" timeout 3 cat <&"${fds[1]}"
not_ok "... and the next is not" timeout 0.3 cat <&"${fds[2]}"
printf 'GET /v1/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' >&"${fds[2]}"
like "$(timeout 5 cat <&"${fds[2]}")" '^HTTP/1.1 200' "... it is served when it speaks"
done_testing
