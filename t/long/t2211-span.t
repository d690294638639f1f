#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs on the GPUs of two servers, for longer than t2210 has time: a training with copies and
# events between the two, and every case of t/cuda/span.cu again and again, several processes at a
# time.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/rgpud.sh"
. "$(dirname "$0")/../lib/span.sh"

two_servers
spanned "$T/lease" gpu1 gpu2

on env CUDA_VISIBLE_DEVICES=0,2 RGPU_STATS="$T/stats.json" "$build/venv/bin/python3" \
    "$root/contrib/examples/train.py"
good "tinygrad trains on a GPU of each server"
like "$out" "test accuracy 9[5-9]" "... and the network has learned"
many_calls()
{
    json_true 'all(j["by_name"][c]["calls"] > 100
        for c in ("cuMemcpyDtoDAsync_v2", "cuStreamWaitEvent"))' < "$T/stats.json"
}
ok "... through copies and events between them" many_calls

failed=0
for round in 1 2 3 4 5; do
    pids=
    for i in 1 2 3; do
        start "span$i" env RGPU_LEASE="$T/lease" LD_LIBRARY_PATH="$interpose:$cuda_libs" \
            "$build/cuda/span-static"
        pids+=" $pid"
    done
    for pid in $pids; do wait "$pid" ||
        { failed=$((failed + 1)); diag "round $round: $(cat "$T"/span?.log)"; }; done
done
is "$failed" 0 "three processes at a time, all cases, five times"

has_worker() { [ -n "$(workers_of "$pid_gpu2")" ]; }
# As many times over as a server may be lost at any moment: whatever the instant, the program ends,
# and by itself.
for i in $(seq 10); do
    start run env RGPU_LEASE="$T/lease" LD_LIBRARY_PATH="$interpose:$cuda_libs" \
        "$build/cuda/span-static"
    run=$pid
    wait_for 20 has_worker
    sleep "0.$((RANDOM % 9))"
    kill -9 $(workers_of "$pid_gpu2") 2> /dev/null
    wait_for 60 sh -c "! kill -0 $run 2> /dev/null" ||
        { fail "a program hangs when a server is lost"; kill -9 "$run"; }
done
pass "a server lost at ten instants holds no program up"
done_testing
