#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Hostile: requests that would cost rgpud memory or time. Each gets a refusal in words, what rgpud
# spends is bounded, and others are served meanwhile.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

strange() { try 60 python3 "$root/t/lib/requests.py" "$1" "$control" "${@:2}"; }
most_memory() { sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\).*/\1/p' "/proc/$server/status"; }
same()
{
    [ -e "/proc/$server" ] && ! tap_gone "$server" && api GET /v1/health && [ "$code" = 200 ]
}

rgpud gpu1 'warm = false' 'softgpu_memory = "16M"'
server=$pid
before=$(most_memory)

strange statuses
answers=$out
note "$answers"
answer() { like "$answers" "(^|$(printf '\n'))$1: $2 [^(]" "$1: $2 and a sentence"; }
answer "two ranges" 416
answer "If-Range" 416
answer "Expect" 417
answer "Upgrade" 400
answer "HTTP/2" 505
answer "chunks" 411
answer "chunks and a length" 411
answer "gzip" 415
answer "multipart" 415
answer "a form" 415
answer "Trailer" 400
answer "two lengths" 400
answer "a huge body" 413
answer "a huger body" 413
answer "65 fields" 431
answer "a long field" 431
answer "an endless header" 431
answer "a long target" 414
answer "PUT" 501
answer "no Host" 400
answer "a bare line feed" 400
answer "a folded field" 400
like "$answers" 'another in its body: 1$' "what a request has as its body is not the next request"

strange ranges 2
is "$rc $out" "0 416" "250 ranges of 8 MiB are refused"
grown=$(($(most_memory) - before))
ok "... and cost no memory: $grown KiB" test "$grown" -lt $((64 * 1024))

# 8 MiB each, which nobody reads: some is in the kernel, and what rgpud itself keeps of it has a
# bound.
strange unread 100 15
slowest=$(sed -n 's/^slowest \([0-9]*\) ms/\1/p' <<< "$out")
ok "100 who ask for 8 MiB and do not read keep nobody waiting: ${slowest:-no answer} ms" test \
    "${slowest:-9999}" -lt 1000
grown=$(($(most_memory) - before))
ok "... the answers take a bounded amount of memory: $grown KiB" test "$grown" -lt $((64 * 1024))
like "$out" 'closed 100$' "... and within a time that is bounded, too, they are closed"

strange pipeline
ok "of 10,000 requests on one connection a bounded number is answered: $out" test "$out" -le 100 \
    -a "$out" -ge 1
strange trickle
ok "a request that never ends is closed after some seconds: $out" test "$out" -ge 3 -a "$out" -le 8
ok "rgpud serves on, the same process" same
unlike "$(cat "$T/gpu1.log")" 'exception|terminate|assert' "... and its log knows of nothing"
done_testing
