#!/bin/bash
# rgpu top on a terminal: it is written anew again and again, fits the screen, and leaves the
# terminal as it was.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
. "$(dirname "$0")/lib/sharing.sh"
rgpu=$build/bin/rgpu

server
tenants_start 300 "30-100 us=1000" "50% us=1000"
two() { busy_tenants 2; }
ok "two tenants are busy" wait_for 30 two


try 70 python3 "$py/top_screen.py" 24 200 4 q "$rgpu" top -i 300ms
like "$err" '^status 0 modes CES S CES views [234]$' \
    "it is written anew with other numbers until q is typed; the terminal is as before"
like "$out" \
    '^GPU +LEASE +SHARE +DUE +1S +10S +1MIN +OWED +MEMORY +LAUNCH/S +BYTES/S +LONGEST +STATE +WHO' \
    "it has these columns"
number='[0-9]+\.[0-9]%'
for share in 30-100% 50%; do
    sentence="gpu1 0 +[0-9a-f]{8} +$share +$number +$number +$number +$number +-?[0-9.]+m?s "
    sentence+="+[0-9.]+ MiB of 32.0 MiB +[0-9.]+ +[0-9.]+ (B|KiB) +[0-9.]+m?s +(runs|waits|idle) "
    sentence+="+$(id -un)"
    like "$out" "$sentence" \
        "the tenant of $share"
done
try 70 python3 "$py/top_screen.py" 24 200 1 '\x03' "$rgpu" top -i 300ms
like "$err" '^status -2 modes CES S CES' "after Ctrl-C the terminal is as before, too"
try 70 python3 "$py/top_screen.py" 24 60 2 q "$rgpu" top -i 300ms
is "$(awk 'length > 60' <<< "$out")" "" "on a narrow terminal lines are cut"
try 70 python3 "$py/top_screen.py" 3 200 2 q "$rgpu" top -i 300ms
like "$out" '^GPU .*
3 lines more$' "on a low one it says what is missing"

# The same numbers for Prometheus, by tenant and GPU.
metrics=$(curl -s "http://127.0.0.1:$control/metrics")
for name in least most weight due owed_seconds; do
    is "$(grep -c "^rgpu_share_$name{" <<< "$metrics")" 2 "Prometheus has rgpu_share_$name of both"
done
for window in 1s 10s 1m; do
    is "$(grep -c "^rgpu_share_given{.*window=\"$window\"" <<< "$metrics")" 2 \
        "... and what they were given in $window"
done
kill "${tenant_pids[@]}"
wait "${tenant_pids[@]}"

# A long kernel, while it runs.
tenants_start 300 "30-100 us=1000 long=0:60000"
long() { "$rgpu" top --once | grep -E 'runs, kernel [0-9.]+s' || { "$rgpu" top --once; false; }; }
ok "it tells how long a long kernel has run" wait_for 60 long
# The leases of the tenants that have just ended may still be there, with no kernel.
long_kernel() { awk '/^rgpu_tenant_running_kernel_seconds{/ && $NF > 1 { found = 1 }
    END { exit !found }' <<< "$1"; }
ok "... and so does Prometheus" long_kernel \
    "$(curl -s "http://127.0.0.1:$control/metrics")"
kill "${tenant_pids[@]}"
wait "${tenant_pids[@]}"
done_testing
