#!/bin/bash
# A link that is longer than loopback (lib/slow_link.py): what waits costs one round trip, what need not costs none.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu
round_trip=20

rgpud gpu1
clients "gpu1=$control"
cd "$T"
try 20 "$rgpu" request -t 10m -o gpus
is "$rc" 0 "a lease" || diag "$err"
start link python3 "$root/t/lib/slow_link.py" gpus far "$round_trip"
wait_for 20 test -s far || bail "the link does not come up: $(cat "$T/link.log")"

RGPU_STATS=$T/stats.json try 60 "$rgpu" run --lease far -- "$build/cuda/primary-static"
is "$rc $out" "0 ok" "a program runs over it" || diag "$err"
asked=$(json 'j["round_trips"]' "$(cat stats.json)")
ok "... and asks no more than it must ($asked round trips)" [ "$asked" -le 25 ]

try 120 "$rgpu" run --lease far -- "$rgpu" bench --json
is "$rc" 0 "its figures are measured" || diag "$err"
figure() { json "$1" "$out"; }
ok "a call that waits takes one round trip: $(figure 'round(j["call"]["p50_us"])') us" \
    [ "$(figure "1000 * $round_trip <= j['call']['p50_us'] < 1990 * $round_trip")" = True ]
ok "one that does not takes none: $(figure 'j["post_us"]') us" [ "$(figure "j['post_us'] < 50 * $round_trip")" = True ]
unlike "$(figure 'j["verdict"]')" '^Excellent' "the verdict knows"
done_testing
