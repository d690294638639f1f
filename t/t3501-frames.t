#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A tenant who sends frames of his own making: calls that no client sends, and addresses of the
# worker's own memory in calls that clients do send. Nothing of the worker is read or written, and
# neighbours and rgpud go on. t/lib/hostile_frames.py is the tenant.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

hostile() { try 120 python3 "$root/t/lib/hostile_frames.py" "$@"; }

mkdir "$T/host"
RGPU_DRIVER=$softgpu/libcuda.so.1 RGPU_SOFTGPU_HOST=$T/host RGPU_SOFTGPU_MEMORY=64M hostile worker \
    "$build/libexec/rgpu-worker"
is "$rc" 0 "every attack gets its answer" || diag "$err"
never=0
while IFS= read -r line; do
    case $line in
        cuMemcpy*|cuModule*)
            like "$line" ': closed \(call number\), status 3$' "no client sends it: ${line%%:*}"
            never=$((never + 1)) ;;
        *) like "$line" ': refused with (1|801), status 0$' "not the session's: ${line%%:*}" ;;
    esac
done <<< "$out"
is "$never" 11 "... the copies of either direction, and a path on the server, among them"

# Memory at addresses that the client chooses: it has the pages of its credit, and no other.
RGPU_DRIVER=$softgpu/libcuda.so.1 RGPU_SOFTGPU_HOST=$T/host RGPU_SOFTGPU_MEMORY=64M hostile placed \
    "$build/libexec/rgpu-worker"
is "$rc" 0 "every lie about addresses and credit gets its answer" || diag "$err"
lies=0 calls=0
while IFS= read -r line; do
    case $line in
        "nothing wrong"*)
            is "$line" "nothing wrong: CARRIED OUT, status 0" "what a client may say" ;;
        pool:*)
            is "${line##*: }" "refused with 1, status 0" "a pool's memory: ${line#pool: }"
            calls=$((calls + 1)) ;;
        *) is "${line#*: }" "closed by the rules, status 3" "refused: ${line%%:*}"
           lies=$((lies + 1)) ;;
    esac
done <<< "$out"
is "$lies" 57 "... each lie"
is "$calls" 3 "... and each call for what is a pool's"

lease()
{
    request='{"gpus": 1, "share": 25, "memory": 16777216, "owner": {"uid": 0, "host": "here", '
    request+='"pid": 1}}'
    api POST /v1/offers "$request"
    api POST "/v1/offers/$(json 'j["id"]')/accept"
    lease=$(json 'j["leases"][0]["id"]')
    secret=$(json 'j["leases"][0]["secret"]')
}
# A tenant of this lease makes COUNT copies, and stays until descriptor 5 is closed.
stay()  # NAME, COUNT
{
    mkfifo "$T/$1.in"
    start "$1" sh -c \
        "exec python3 $root/t/lib/hostile_frames.py copies $data $lease $secret $2 < $T/$1.in"
    exec 5> "$T/$1.in"
}
copied() { grep -q copied "$T/$1.log"; }

rgpud gpu1
lease
stay neighbour 3
neighbour=$pid
ok "a neighbour is there" wait_for 20 copied neighbour
exec 6>&5
first=("$data" "$lease" "$secret")
lease
hostile lease "$data" "$lease" "$secret"
is "$rc $out" "0 closed" "through rgpud: the server hangs up" || diag "$err"
like "$(cat "$T/gpu1.log")" \
    'connection closed: call number [0-9]+ \(cuMemcpy\) is not one that a client sends' \
    "... and its log says why"
ok "the neighbour is connected as before" kill -0 "$neighbour"
hostile copies "${first[@]}" 3 < /dev/null
is "$rc $out" "0 copied" "... and served" || diag "$err"
exec 6>&-

# Copies of boxes on the device take turns, as flat ones do.
launches()
{
    api GET /metrics
    awk -v lease="${lease:0:8}" \
        '/^rgpu_tenant_launches_total/ && index($0, lease) {n += $2} END {print n + 0}' <<< "$body"
}
lease
stay boxes 40
ok "forty copies of boxes" wait_for 20 copied boxes
counted() { [ "$(launches)" -ge 40 ]; }
ok "... are forty launches to the scheduler" wait_for 10 counted || diag "$(launches)"
exec 5>&-

# What a client makes of cuMemcpyDtoA, AtoA and AtoD, with a set of memory each time.
clients "gpu1=$control"
mkfifo "$T/arrays.in"
start arrays sh -c "exec $build/bin/rgpu run -p 0.2 -m 16M --wait 30s -- \
    $build/cuda/features/array_copies 40 < $T/arrays.in"
exec 5> "$T/arrays.in"
ok "forty copies each to, among and from arrays" wait_for 20 copied arrays ||
    diag "$(cat "$T/arrays.log")"
api GET /v1/leases
lease=$(json 'next(l["id"] for l in j["leases"] if l["gpus"][0]["share"] == 20)')
counted() { [ "$(launches)" -ge 160 ]; }
ok "... are launches to the scheduler, too" wait_for 10 counted || diag "$(launches)"
exec 5>&-
done_testing
