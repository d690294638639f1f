#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The control port while strangers hold connections open and say little: whoever asks properly is
# answered at once.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

rgpud gpu1
server=$pid

try 60 python3 "$py/flood.py" "$control" 300
is "$rc" 0 "300 half-sent requests are held" || diag "$err"
slowest=$(sed -n 's/^slowest \([0-9]*\) ms/\1/p' <<< "$out")
ok "... and the next is answered at once: after $slowest ms" test "$slowest" -lt 1000
like "$out" 'two in one packet: 2' "two requests in one packet are both answered"
like "$out" 'byte by byte: True' "so is one that comes byte by byte"
like "$out" 'still open: 0' "what is half sent for too long is closed"
try 60 python3 "$py/flood.py" "$control" 1100
is "$rc" 0 "past the limit of connections the oldest make room, and the next is answered"
healthy() { api GET /v1/health && [ "$code" = 200 ]; }
ok "... and rgpud serves when they have gone" wait_for 15 healthy
is "$(grep -c '^State:' "/proc/$server/status")" 1 "... the same process"
kill "$server"
ok "SIGTERM ends it" wait_for 5 tap_gone "$server"
done_testing
