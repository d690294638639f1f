#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Three always-busy tenants of 25, 35 and 40 hundredths over 30 s: each within 2 points, and within
# 5 over any 5 s; kernels of 0.2, 2 and 20 ms; then one from CUDA graphs and one from eight threads.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/rgpud.sh"
. "$(dirname "$0")/../lib/sharing.sh"

server
for us in 200 2000 20000; do
    alone "us=$us"
    tenants 31 "25-100 us=$us" "35-100 us=$us" "40-100 us=$us"
    three_shares 2 5 "kernels of $us us (alone: $alone)" "1 / $alone"
    at_most "100 * (1 - (1 - idle / 100) / $alone)" 3 \
        "... and the GPU idles more than with one alone (percent)"
done

try 30 "$build/bin/rgpu" run -p 50% -m 32M -- "$build/cuda/tenant-static" mode=graph us=1000 \
    seconds=0.2
if [ "$rc" = 0 ]; then
    tenants 31 "25-100 us=200 mode=graph" "35-100 us=2000 mode=threads" "40-100 us=20000"
    three_shares 2 5 "graphs of 0.2 ms kernels, eight threads of 2 ms, kernels of 20 ms"
    at_most idle 3 "... and the GPU idles (percent)"
else
    skip "graphs do not run here: $err" 8
fi
done_testing
