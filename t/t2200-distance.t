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

RGPU_STATS=$T/start.json try 60 "$rgpu" run --lease far -- "$build/cuda/start-static"
is "$rc $out" "0 ok" "a start of PyTorch's kind" || diag "$err"
asked=$(json 'j["round_trips"]' "$(cat start.json)")
ok "... takes five round trips at most ($asked)" [ "$asked" -le 5 ]

RGPU_STATS=$T/facts.json try 60 "$rgpu" run --lease far -- "$build/cuda/facts-static"
is "$rc $out" "0 ok" "what is known of functions and memory follows the program" || diag "$err"
asked=$(json 'j["round_trips"]' "$(cat facts.json)")
ok "... and is not asked for each time ($asked round trips)" [ "$asked" -lt 100 ]

RGPU_STATS=$T/poll.json try 120 "$rgpu" run --lease far -- "$build/cuda/poll-static"
is "$rc $out" "0 ok" "events are polled" || diag "$err"
asked=$(json 'j["by_name"]["cuEventQuery"]["round_trips"]' "$(cat poll.json)")
queries=$(json 'j["by_name"]["cuEventQuery"]["calls"]' "$(cat poll.json)")
ok "... $queries times, and the server is asked $asked times" [ $((asked * 20)) -lt "$queries" ]

RGPU_STATS=$T/steps.json try 60 "$rgpu" run --lease far -- "$build/cuda/read_after_wait-static" 40
is "$rc $out" "0 ok" "work, wait and read, step after step" || diag "$err"
asked=$(json 'j["round_trips"]' "$(cat steps.json)")
ok "... is one round trip a step ($asked for 40)" [ "$asked" -le 52 ]

try 120 "$rgpu" run --lease far -- "$rgpu" bench --json
is "$rc" 0 "its figures are measured" || diag "$err"
figure() { json "$1" "$out"; }
ok "a call that waits takes one round trip: $(figure 'round(j["call"]["p50_us"])') us" \
    [ "$(figure "1000 * $round_trip <= j['call']['p50_us'] < 1990 * $round_trip")" = True ]
ok "one that does not takes none: $(figure 'j["post_us"]') us" [ "$(figure "j['post_us'] < 50 * $round_trip")" = True ]
unlike "$(figure 'j["verdict"]')" '^Excellent' "the verdict knows"
done_testing
