#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A link that is longer than loopback (lib/slow_link.py): what waits costs one round trip, what need
# not costs none.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu
round_trip=20

rgpud gpu1
clients "gpu1=$control"
cd "$T" || exit 1
try 20 "$rgpu" request -t 10m -o gpus
is "$rc" 0 "a lease" || diag "$err"
start link python3 "$root/t/lib/slow_link.py" gpus far "$round_trip"
wait_for 20 test -s far || bail "the link does not come up: $(cat "$T/link.log")"

# over_it SENTENCE PROGRAM...: it runs over the link and says ok; stats names what it has asked.
over_it()
{
    rm -f stats.json
    RGPU_STATS=$T/stats.json try 120 "$rgpu" run --lease far -- "$build/cuda/$2-static" "${@:3}"
    is "$rc $out" "0 ok" "$1" || diag "$err"
    asked=$(json 'j["round_trips"]' "$(cat stats.json)")
}

over_it "a program runs over it" primary
ok "... and asks no more than it must ($asked round trips)" [ "$asked" -le 25 ]
over_it "a start of PyTorch's kind" start
ok "... takes five round trips at most ($asked)" [ "$asked" -le 5 ]
over_it "what is known of functions and memory follows the program" facts
ok "... and is not asked for each time ($asked round trips)" [ "$asked" -lt 100 ]
over_it "work, wait and read, step after step" read_after_wait 40
ok "... is one round trip a step ($asked for 40)" [ "$asked" -le 52 ]
over_it "events are polled" poll
asked=$(json 'j["by_name"]["cuEventQuery"]["round_trips"]' "$(cat stats.json)")
queries=$(json 'j["by_name"]["cuEventQuery"]["calls"]' "$(cat stats.json)")
ok "... $queries times, and the server is asked $asked times" [ $((asked * 20)) -lt "$queries" ]

try 120 "$rgpu" run --lease far -- "$rgpu" bench --json
is "$rc" 0 "its figures are measured" || diag "$err"
figure() { json "$1" "$out"; }
ok "a call that waits takes one round trip: $(figure 'round(j["call"]["p50_us"])') us" \
    [ "$(figure "1000 * $round_trip <= j['call']['p50_us'] < 1990 * $round_trip")" = True ]
ok "one that does not takes none: $(figure 'j["post_us"]') us" [ \
    "$(figure "j['post_us'] < 50 * $round_trip")" = True ]
unlike "$(figure 'j["verdict"]')" '^Excellent' "the verdict knows"
done_testing
