#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
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
    '^GPU +WHO +STATE +SHARE +DUE +1S +10S +1MIN +OWED +MEMORY +LAUNCH/S +BYTES/S +LONGEST +LEASE' \
    "it has these columns"
number='[0-9]+\.[0-9]%'
for share in 30-100% 50%; do
    sentence="gpu1 0 +$(id -un): pid [0-9]+ on [^ ]+ +(runs|waits|idle) +$share +$number "
    sentence+="+$number +$number +$number +-?[0-9.]+m?s +[0-9.]+ MiB of 32.0 MiB +[0-9.]+ +[0-9.]+ "
    sentence+="(B|KiB) +[0-9.]+m?s +[0-9a-f]{8}"
    like "$out" "$sentence" \
        "the tenant of $share"
done
try 70 python3 "$py/top_screen.py" 24 200 1 '\x03' "$rgpu" top -i 300ms
like "$err" '^status -2 modes CES S CES' "after Ctrl-C the terminal is as before, too"
try 70 python3 "$py/top_screen.py" 24 60 2 q "$rgpu" top -i 300ms
is "$(awk 'length > 60' <<< "$out")" "" "on a narrow terminal lines are cut"
like "$out" "gpu1 0 +$(id -un): pid [0-9]+ on [^ ]+ +(runs|waits|idle)" \
    "... and who has the GPU and what he does is still there"
try 70 python3 "$py/top_screen.py" 3 200 2 q "$rgpu" top -i 300ms
like "$out" '^GPU .*
2 lines more$' "on a low one it says what is missing"

# Leases that have launched nothing, and GPUs that nobody has.
one=$control
rgpud gpu2 'softgpu_devices = 3'
clients "gpu1=$one" "gpu2=$control"
start idle "$rgpu" run -n 1 --server gpu2 -- sleep 300
"$rgpu" drain gpu2:2 --reason 'new fans' > "$T/drained"
is "$(cat "$T/drained")" "gpu2:2 is drained: nothing more of it is lent. Who has it keeps it; rgpu \
leases shows whom" "a drain says what it did"
launches_nothing()
{
    "$rgpu" top --once > "$T/top"
    grep -qE "^gpu2 0 +$(id -un): pid [0-9]+ on [^ ]+ +no (launch|program) yet +100%" "$T/top"
}
ok "a lease that has launched nothing is shown" wait_for 20 launches_nothing
like "$(cat "$T/top")" 'gpu2 1 +- +free' "... and a GPU that nobody has"
like "$(cat "$T/top")" 'gpu2 2 +- +drained: new fans' "... and one that is drained, with the reason"
is "$("$rgpu" resume gpu2:2)" "gpu2:2 is lent again" "so does a resume"
control=$one
clients "gpu1=$one"

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
