#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Forty clients race for eight GPUs and some are killed: never two owners, never a GPU left locked.
#
# RGPU_RACE_SECONDS: how long; 15, with make check-long 120.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu
seconds=${RGPU_RACE_SECONDS:-${RGPU_LONG:+120}}
seconds=${seconds:-15}

rgpud gpu1 'softgpu_devices = 4'
one=$control
rgpud gpu2 'softgpu_devices = 4'
clients "gpu1=$one" "gpu2=$control"

# Programs that end before their workers have started: those end at once, too.
all_free() { "$rgpu" list | tail -n 1 | grep -q '^8 of 8 '; }
busy=0
for _ in $(seq 10); do
    "$rgpu" run --server gpu1 -- true
    all_free || busy=$((busy + 1))
done
is "$busy" 0 "the GPUs of ten short programs are free when each has ended" ||
    diag "$(grep 'ended by' "$T/gpu1.log")"

mkdir "$T/gpus" "$T/double" "$T/did"

try $((seconds + 60)) python3 "$py/race.py" "$rgpu" "$T" "$seconds" "$py/sole_owner.py"
read -r started killed <<< "$out"
is "$rc" 0 "forty clients raced for $seconds s: $started started, $killed of them killed" ||
    diag "$err"
ok "... $(ls "$T/did" | wc -l) had their GPUs and ended, $(ls "$T/did" |
    grep -c '\.2$') of them those of two servers" test "$(ls "$T/did" | wc -l)" -ge 10
is "$(ls "$T/double")" "" "no GPU had two owners at once"
ok "no GPU is left locked" wait_for 20 all_free
is "$("$rgpu" leases --json | grep -c '"id"')" 0 "no lease is left"
unlike "$(cat "$T/gpu1.log" "$T/gpu2.log")" 'sold twice| error: ' "no server noticed anything wrong"
done_testing
