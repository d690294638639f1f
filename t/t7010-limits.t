#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What goes wrong: kernels past [rgpud] max_kernel, workers killed with the token, an rgpud that is
# restarted.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
. "$(dirname "$0")/lib/sharing.sh"

server 'max_kernel = "700ms"' 'control_port = '"$(free_port)" 'data_port = '"$(free_port)"

tenants_start 4 "50-100 us=1000" "50-100 us=1000 long=1:10000"
for p in "${tenant_pids[@]}"; do wait "$p"; codes+=($?); done
is "${codes[0]}" 0 "the tenant with short kernels goes on"
isnt=${codes[1]}
ok "the one whose kernel lasts ten seconds is ended (status $isnt)" [ "$isnt" != 0 ]
like "$(cat "$T/tenant.2")" \
    'a kernel has run for 0\.[0-9] s on GPU 0, and the server.s max_kernel is 700ms' \
    "... and told why"
like "$(cat "$T/gpu1.log")" 'lease [0-9a-f]{8}: a kernel has run for' "... and so is the log"
tenant_files=("t1=$T/notes.1")
look 2.5 3.9 1
ok "... after which the other has the GPU: $(got t1.share)" awk \
    "BEGIN { exit !($(got t1.share) > 50) }"

# A host function that takes its time is no kernel.
try 60 "$build/bin/rgpu" run -- "$build/cuda/soft_streams-static"
is "$rc" 0 "a program with host functions is left alone" || diag "$out$err"

# What waits for something behind it does not hang, alone and beside another.
try 60 "$build/bin/rgpu" run -m 32M -- "$build/cuda/gated-static" new
like "$rc $out" '^0 .*ok$' "work behind a host function and a value, alone" || diag "$err"
tenants_start 6 "50-100 us=1000"
try 60 "$build/bin/rgpu" run -p 50-100 -m 32M -- "$build/cuda/gated-static" new host
like "$rc $out" '^0 .*ok$' "... behind a host function, beside a busy tenant" || diag "$err"
tenants_wait

# --- killed with the token

tenants_start 6 "30-100 us=1000" "30-100 us=1000"
sleep_until_begin() { python3 -c "import sys, time; sys.exit(time.time() < $begin + 0.5)"; }
wait_for 10 sleep_until_begin
killed=$(python3 "$root/t/lib/killer.py" "$pid" "$control" 40 5 "$T/kills" "$build/bin/rgpu" run \
    -p 40-100 -m 32M -- \
    "$build/cuda/tenant-static" us=20000 seconds=20)
is "$killed" 5 "five workers are killed while their work runs"
tenants_wait
got=$(python3 "$root/t/lib/shares.py" --times "$T/kills" "${tenant_files[@]}")
ok "... with the token ($(got held) of 5)" [ "$(got held)" -ge 1 ]
at_most "1000 * wait" 250 "... and the others go on soon (milliseconds)"

# --- rgpud goes and comes back

tenants_start 7 "25-100 us=1000" "75-100 us=1000"
begun() { python3 -c "import sys, time; sys.exit(time.time() < $begin + 2)"; }
wait_for 10 begun
scheduler=$(pgrep -P "$pid" rgpu-scheduler)
stop "$pid"
rm -f "$T/gpu1.ready"
start again "$build/sbin/rgpud" --verbose --config "$T/gpu1.conf" --ready-file "$T/gpu1.ready"
wait_for 20 test -s "$T/gpu1.ready" || bail "rgpud does not start again: $(cat "$T/again.log")"
known()
{
    "$build/bin/rgpu" top --json | json_true '[t for s in j["servers"] for g in s["gpus"]
        for t in g["tenants"] if t["given_s"] > 0.5 and t["turns"] > 5]'
}
ok "the new rgpud knows the turns of before" wait_for 5 known
tenants_wait
is "$rc" 0 "both programs end well" || diag "$out"
look 1 7 3
within "100 * t1.share / (t1.share + t2.share)" 25 6 "their shares are as before"
at_most overlap 0.5 "... and they never ran at the same time"

api GET /v1/inventory
meters=/dev/shm/rgpu-$(printf %s "$(realpath "$T/gpu1.state")" | sha256sum | cut -c 1-16)-meters
ok "its scheduler is the one of before" kill -0 "$scheduler"
is "$(stat -c %a "$T/gpu1.state/scheduler.socket" "$meters" | xargs)" "600 700" \
    "the scheduler's socket is its user's alone, as are the meters of leases"
no_workers() { [ -z "$(workers_of "$pid")" ]; }
wait_for 10 no_workers
stop "$pid"
no_scheduler() { ! kill -0 "$scheduler" 2> /dev/null; }
ok "with the last rgpud the scheduler ends" wait_for 5 no_scheduler
ok "... and the meters of leases are gone" [ ! -e "$meters" ]
done_testing
