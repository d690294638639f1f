#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What changes while they run: one is away for ten seconds, one never waits, one has a kernel of
# five seconds; and a ceiling.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/rgpud.sh"
. "$(dirname "$0")/../lib/sharing.sh"

server

tenants 30 "25-100 us=2000" "35-100 us=2000" "40-100 us=2000 away=10-20"
look 10.2 19.9 5
at_most idle 3 "one of three is away for 10 s: the GPU idles (percent)"
within "t1.share" 41.7 2.5 "... 25 of the other 60"
within "t2.share" 58.3 2.5 "... 35 of the other 60"
look 20.5 21.5 1
within "t3.share" 40 6 "... in the second after its first half one it is back at its share"
look 21 30 5
three_shares 2 5 "... and all are"

for us in 200 2000 20000; do
    tenants_start 31 "50% us=$us"
    old() { python3 -c "import sys, time; sys.exit(time.time() < $begin + 25)"; }
    wait_for 60 old
    given=$("$build/bin/rgpu" top --json | json_value '100 * [t for s in j["servers"]
        for g in s["gpus"] for t in g["tenants"]][0]["given_10s"]')
    tenants_wait
    # A kernel of 0.2 ms is over before the next one is launched, where the processors are busy.
    look 1 31 5 --join 1
    within t1.share 50 2 "a ceiling of 50 alone, kernels of $us us"
    within "(t1.low if 50 - t1.low > t1.high - 50 else t1.high)" 50 3 "... in its worst 5 s"
    within "$given" 50 2 "... and rgpu top says so"
done

tenants 31 "25-100 us=2000 mode=never" "35-100 us=2000" "40-100 us=2000"
three_shares 2 5 "one never waits"

# Five seconds are a quarter of twenty, or more than a share of 25 hundredths has in 15.
tenants 31 "25-100 us=2000 long=5:5000" "35-100 us=2000" "40-100 us=2000"
look 0.5 30.5 5
within t1.share 25 2 "a kernel of 5 s is part of its tenant's share of 30 s"
within t2.share 35 2 "... and the second gets its share back"
within t3.share 40 2 "... and the third"
look 10.5 19.5 5
at_most t1.share 3 "... while the first repays it"
look 26 31 5
within t1.share 25 4 "... and afterwards all is as before"
done_testing
