#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The control port and what nobody should send it: a status, a sentence, and rgpud serves on.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

rgpud gpu1
rgpud_pid=$pid
well() { api GET /v1/health && [ "$code" = 200 ]; }

refused()  # BODY, PART OF THE SENTENCE
{
    api POST /v1/offers "$1"
    is "$code" 400 "refused: ${1:0:70}"
    like "$(json 'j["error"]["text"]')" "$2" "... in words"
}
refused 'hello' 'not JSON'
refused '' 'not JSON'
refused '[1, 2]' 'must be an object'
refused '{}' 'lacks "gpus"'
refused '{"gpus": 1}' 'lacks "owner"'
refused '{"gpus": -1, "owner": {"uid": 0, "host": "h"}}' 'gpus must be a whole number from 1'
refused '{"gpus": 1e99, "owner": {"uid": 0, "host": "h"}}' 'gpus must be a whole number from 1'
refused '{"gpus": 1, "share": 101, "owner": {"uid": 0, "host": "h"}}' \
    'share must be a whole number from 1 to 100'
refused '{"gpus": 1, "owner": {"uid": 0}}' 'must name a job, or a host'
refused '{"gpus": 1, "owner": {"uid": 0, "host": "two\nlines"}}' 'printable'
refused '{"gpus": 1, "filter": "h100", "owner": {"uid": 0, "host": "h"}}' 'unknown field "filter"'
refused "$(printf '[%.0s' $(seq 60000))" 'not JSON'

api POST /v1/offers "$(printf 'x%.0s' $(seq 70000))"
is "$code" 413 "a body past 64 KiB is not read"
api GET "/v1/leases?job=$(printf 'x%.0s' $(seq 600))"
is "$code" 414 "a long target is refused"
api GET "/v1/leases?jop=1"
is "$code" 400 "an unknown parameter is refused"
api GET /v1/leases/../../etc/passwd
is "$code" 404 "an unknown path is not found"
api DELETE /v1/leases
is "$code" 400 "all leases at once are not released"
api POST /v1/offers/00000000000000000000000000000000/accept
is "$code" 404 "an offer that never was is not found"
is "$(curl -s -m 10 -o /dev/null -w '%{http_code}' -X POST -H 'Transfer-Encoding: chunked' -d '{}' \
    "http://127.0.0.1:$control/v1/offers")" \
    411 "a chunked body is refused"
for text in 'garbage' 'GET / HTTP/9.9' \
    'POST /v1/offers HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n' \
    'POST /v1/offers HTTP/1.1\r\nContent-Length: -1\r\n\r\n'; do
    exec 9<> "/dev/tcp/127.0.0.1/$control"
    printf '%b\r\n\r\n' "$text" >&9
    timeout 10 cat <&9 > "$T/answer"
    exec 9>&-
    like "$(head -n 1 "$T/answer")" '^(HTTP/1.1 [45]|$)' \
        "a raw \"${text:0:40}\" is refused, or its connection closed"
done
head -c 100000 /dev/urandom > "/dev/tcp/127.0.0.1/$control" 2>/dev/null
ok "after all that rgpud serves" well
is "$(grep -c '^State:' "/proc/$rgpud_pid/status")" 1 "... and is the same process"
api GET /v1/inventory
is "$(json 'len(j["gpus"]), [g["free_share"] for g in j["gpus"]], j["leases"]')" \
    "(2, [100, 100], [])" "nothing was given away"

api GET /metrics
like "$body" 'rgpu_gpus\{server="[^"]*"\} 2' "/metrics counts GPUs"
like "$body" 'rgpu_control_requests_total\{status="400",server="gpu1"\} [1-9]' \
    "... and requests by status"

# --- start and end

try 20 "$build/sbin/rgpud" --config "$T/gpu1.conf" --check
is "$rc" 0 "--check: a good configuration"
like "$err" 'GPU 1: .*64M' "... and what it found"
sed -e "s|^control_port.*|control_port = $control|" -e \
    "s|^state_dir.*|state_dir = \"$T/taken.state\"|" "$T/gpu1.conf" > "$T/taken.conf"
try 20 "$build/sbin/rgpud" --config "$T/taken.conf"
is "$rc" 1 "a port that is taken ends the second rgpud"
like "$err" "127.0.0.1:$control.*control_port" "... which names the address and the key"
wrong()  # KEY, LINE, REGEX, NAME
{
    grep -v "^$1 =" "$T/gpu1.conf" > "$T/wrong.conf"
    echo "$2" >> "$T/wrong.conf"
    try 20 "$build/sbin/rgpud" --config "$T/wrong.conf" --check
    is "$rc" 1 "$4: exit status 1"
    like "$err" "$3" "... and the log names it"
}
wrong worker 'worker = "/nonexistent/worker"' '/nonexistent/worker.*worker in rgpu.conf' \
    "no worker program"
wrong driver 'driver = "/nonexistent/libcuda.so.1"' 'driver /nonexistent/libcuda.so.1' "no driver"
wrong softgpu_library 'softgpu_library = "/nonexistent/soft.so"' \
    '/nonexistent/soft.so.*softgpu_library' "no software GPU"
wrong listen 'listen = "0.0.0.0"' 'method = "none" needs .*loopback.*use munge or key' \
    "no authentication but on loopback"
wrong worker_user 'worker_user = "no-such-user"' 'worker_user: there is no user "no-such-user"' \
    "no such account"
wrong nothing 'offer_timeout = 5' 'wrong.conf:[0-9]+: rgpud.offer_timeout: must be a time' \
    "a wrong key"
try 20 "$build/sbin/rgpud" --config /nonexistent/rgpu.conf
like "$rc $err" '^1 .*/nonexistent/rgpu.conf' "no configuration: exit status 1, and the path"

kill "$rgpud_pid"
ok "SIGTERM ends it" wait_for 10 tap_gone "$rgpud_pid"
wait "$rgpud_pid"
is $? 0 "... with exit status 0"
done_testing
