#!/bin/bash
# A lease's cap on memory: what a program sees, what it gets, and that all of a lease's programs
# share it.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu
program=$build/cuda/memory_cap-static
[ -x "$program" ] || skip_all "$program is not built; run make cuda"
mib=$((1 << 20))

rgpud gpu1 'softgpu_memory = "256M"' 'softgpu_devices = 1'
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

leases_gone() { [ -z "$(ls "$T/gpu1.state/memory")" ]; }
ok "nothing is kept of leases that have ended" wait_for 5 leases_gone
done_testing
