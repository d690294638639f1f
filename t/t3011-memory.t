#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A lease's cap on memory: what a program sees, what it gets, and that all of a lease's programs
# share it.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu
program=$build/cuda/memory_cap-static
[ -x "$program" ] || skip_all "$program is not built; run make cuda"
mib=$((1 << 20))

rgpud gpu1 'softgpu_memory = "256M"' 'softgpu_devices = 1'
rgpud_pid=$pid
clients "gpu1=$control"

numbers() { read -r _ total _ free _ got <<< "$out"; }
# The 8 MiB of the program's global variable and a page for its first byte are gone when it looks.
for how in linear pool managed array; do
    try 60 "$rgpu" run -p 0.5 -m 64M -- "$program" "$how"
    if [[ $out =~ NotSupported|cudaErrorStreamCaptureUnsupported ]]; then
        skip "$how memory is not carried to the server yet" 3
        continue
    fi
    is "$rc" 0 "$how memory until there is no more" || { diag "$out $err"; continue; }
    numbers
    is "$total" $((64 * mib)) "... the device has the cap"
    ok "... it gets the cap, to 2 MiB: $((got / mib)) MiB beside what the program itself took" \
        test $((64 * mib - (8 + 2) * mib - got)) -le $((2 * mib)) -a $((got + 8 * mib)) -le \
        $((64 * mib))
done

script="$program linear $T/hold > $T/one & until [ -e $T/hold ]; do sleep 0.05; done; $program "
script+="linear; rm $T/hold; wait"
try 60 "$rgpu" run -p 0.5 -m 64M -- sh -c "$script"
like "$out" '^cudaErrorMemoryAllocation' "a second program of the same lease finds nothing left"
like "$(cat "$T/one")" '^total' "... while the first holds all"
try 60 "$rgpu" run -p 0.5 -m 64M -- sh -c "$program linear > $T/one; $program linear"
numbers
ok "... and after it has ended, everything" test "$got" -ge $((50 * mib))

rm -f "$T/hold"
start tenant "$rgpu" run -p 0.5 -m 128M -- "$program" linear "$T/hold"
ok "a tenant fills its half" wait_for 30 test -e "$T/hold"
try 60 "$rgpu" run -p 0.5 -m 128M -- "$program" linear
is "$rc" 0 "... and another tenant of the same GPU has the other half"
numbers
ok "... whole: $((got / mib)) MiB" test "$got" -ge $((114 * mib))
rm "$T/hold"
ok "the first ends" wait_for 20 tap_gone "$pid"

try 60 "$rgpu" run -- "$program" linear
numbers
is "$total" $((256 * mib)) "a whole GPU has all of its memory"

started_by()
{
    pgrep -f "^$build/libexec/rgpu-scheduler" | while read -r id; do
        [ "$(readlink "/proc/$id/exe")" = "$build/libexec/rgpu-scheduler" ] &&
            [ "$(awk '{print $4}' "/proc/$id/stat")" = "$1" ] && echo "$id"
    done
}
scheduler=$(started_by "$rgpud_pid")
kept() { find "/proc/$1/fd" -lname '/memfd:rgpu *' | wc -l; }
nothing_kept() { [ "$(kept "$rgpud_pid") $(kept "$scheduler")" = "0 0" ]; }
ok "nothing is kept of leases that have ended" wait_for 5 nothing_kept ||
    diag "$(ls -l "/proc/$rgpud_pid/fd" "/proc/$scheduler/fd" 2>&1 | grep memfd)"

# Another rgpud, while a program has all that its lease may have; and then another scheduler and
# another rgpud.
another_scheduler()
{
    local new
    new=$(started_by "$rgpud_pid")
    [ -n "$new" ] && [ "$new" != "$scheduler" ] && [ "$(kept "$new")" -gt 0 ] && scheduler=$new
}
for deaths in "rgpud" "the scheduler and rgpud"; do
    rm -f "$T/hold" "$T/next" "$T/two"
    script="$program linear $T/hold & until [ -e $T/next ]; do sleep 0.05; done; "
    start tenant "$rgpu" run -p 0.5 -m 64M -- sh -c "$script $program linear > $T/two; wait"
    ok "a program takes its lease's memory" wait_for 30 test -e "$T/hold"
    tenant=$pid
    if [ "$deaths" != rgpud ]; then
        kill -KILL "$scheduler"
        ok "another scheduler gets what the first kept" wait_for 10 another_scheduler
    fi
    stop "$rgpud_pid"
    rm "$T/gpu1.ready"
    rgpud gpu1 'softgpu_memory = "256M"' "control_port = $control" "data_port = $data"
    rgpud_pid=$pid
    touch "$T/next"
    ok "... and after the death of $deaths another program of the lease" \
        wait_for 60 test -s "$T/two"
    like "$(cat "$T/two")" '^cudaErrorMemoryAllocation' "... finds nothing left"
    rm "$T/hold"
    ok "they end" wait_for 20 tap_gone "$tenant"
    ok "... and nothing is kept of them" wait_for 5 nothing_kept
done

# A lease that ends while the scheduler does not listen.
rm -f "$T/hold"
start tenant "$rgpu" run -p 0.5 -m 64M -- "$program" linear "$T/hold"
tenant=$pid
ok "a program with a lease" wait_for 30 test -e "$T/hold"
like "$(kept "$scheduler")" "^[1-9]" "... of which the scheduler keeps files"
kill -STOP "$scheduler"
rm "$T/hold"
ok "... ends while the scheduler is stopped" wait_for 20 tap_gone "$tenant"
kill -CONT "$scheduler"
ok "... which hears of it later" wait_for 10 nothing_kept
done_testing
