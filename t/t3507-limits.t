#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a tenant can take of the host with his lease: threads, memory, room in the log, starts of
# workers. Each is bounded, and his neighbour's programs go on.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

# --- a worker under his control

ok "t/hostile/bomb.c" cc -O1 -pthread -o "$T/bomb" "$root/t/hostile/bomb.c"
# The worker of a lease is what $T/as says when it is made; the neighbour's is ours. With an option
# (--inventory, --readings, --energy) it is a process of rgpud's own, which no lease limits.
cat > "$T/worker" <<EOF
#!/bin/sh
[ \$# = 0 ] && [ -s "$T/as" ] && exec "$T/bomb" \$(cat "$T/as")
exec "$build/libexec/rgpu-worker" "\$@"
EOF
chmod 755 "$T/worker" "$T/bomb"
mkdir -m 1777 "$T/told"
[ "$(id -u)" = 0 ] && worker_user=nobody
rgpud gpu1 "worker = \"$T/worker\"" 'worker_memory = "192M"' 'worker_pids = 256' \
    'worker_starts = 2' 'max_workers = 8' 'softgpu_devices = 3'
clients "gpu1=$control"
limited() { logged gpu1 'workers are limited by (cgroups v2|v1 cgroups)' > /dev/null; }

lease()
{
    api POST /v1/offers \
        "{\"gpus\": 1, \"owner\": {\"uid\": ${1:-0}, \"host\": \"here\", \"pid\": 1}}"
    api POST "/v1/offers/$(json 'j["id"]')/accept"
    lease=$(json 'j["leases"][0]["id"]')
    secret=$(json 'j["leases"][0]["secret"]')
}
# Synchronous calls, and kernels.
neighbour_goes_on()
{
    ok "... and the neighbour's program runs" timeout 60 "$build/bin/rgpu" run --wait 20s -- \
        "$build/cuda/sync_copies-static"
}
neighbour_goes_on

# The attack is what a lease's first worker does, before any client comes.
attack()  # KIND
{
    echo "$1 $T/told/$1" > "$T/as"
    lease
}
told() { cat "$T/told/$1" 2> /dev/null; }
over()  { rm -f "$T/as"; neighbour_goes_on; api DELETE "/v1/leases/$lease"; }

if limited; then
    attack threads
    wait_for 20 test -s "$T/told/threads"
    ok "of 3000 threads a worker gets $(told threads)" test "$(told threads)" -gt 100 -a \
        "$(told threads)" -lt 512
    over

    attack memory
    killed() { [ -s "$T/told/memory" ] || [ "$(logged gpu1 'was ended by signal 9')" -gt 0 ]; }
    wait_for 30 killed
    is "$(told memory) $(logged gpu1 'was ended by signal 9')" " 1" \
        "of 633 MiB a worker gets less than its lease has: it is ended"
    over
else
    skip "neither cgroups v2 nor v1 can be written here: $(grep -o 'workers are limited.*' \
        "$T/gpu1.log")" 4
fi

before=$(stat -c %s "$T/gpu1.log")
attack log
wait_for 30 test -s "$T/told/log"
ok "a worker that writes for 2 s ($(told \
    log) lines got out of it) writes $(($(stat -c %s "$T/gpu1.log") - before)) bytes of log" \
    test $(($(stat -c %s "$T/gpu1.log") - before)) -lt 200000
is "$(logged gpu1 'its workers say more than 10 lines a second')" 1 "... and the log says so"
is "$(logged gpu1 '^[^ ]* rgpud error: .*this is not true')$(grep -c $'\033' "$T/gpu1.log")" 00 \
    "... and none of it looks like rgpud's own"
over

# --- programs without end

lease
before=$(logged gpu1 'worker [0-9]+ for')
# Each comes, says what no client says, and goes with its worker. All come at once.
clients_of() { for _ in $(seq 60); do python3 "$root/t/lib/data_client.py" "$data" "$lease" \
    "$secret" --speak "this is no frame at all" & done; wait; }
begin=$(date +%s)
out=$(clients_of 2>&1 | grep -c accepted)
seconds=$(($(date +%s) - begin + 1))
# One more than has a program waits.
most=$((8 + 2 * seconds + 1)) got=$(($(logged gpu1 'worker [0-9]+ for') - before))
ok "$out programs in $seconds s start $got workers, $most at most" test "$got" -le "$most" -a \
    "$out" -gt 40
served() { [ $(($(logged gpu1 'worker [0-9]+ for') - before)) -gt 14 ]; }
ok "... those that wait get theirs in their turn" wait_for 20 served
ok "... and more than may wait are refused" test \
    "$(logged gpu1 "refused: lease ${lease:0:8}: too many of its programs wait")" -gt 0
neighbour_goes_on
api DELETE "/v1/leases/$lease"

# --- a client that has the worker wait in as many places

export RGPU_DRIVER=$softgpu/libcuda.so.1 RGPU_SOFTGPU_HOST=$T/host
mkdir "$RGPU_SOFTGPU_HOST"
try 120 python3 "$root/t/hostile/waiting.py" "$build/libexec/rgpu-worker" threads
is "$rc $out" "0 ok" "3000 calls that wait have no thread each, and are all answered" || diag "$err"
try 120 python3 "$root/t/hostile/waiting.py" "$build/libexec/rgpu-worker" calls
is "$rc $out" "0 ok" "who makes more calls that wait than any program is closed" || diag "$err"
try 120 python3 "$root/t/hostile/waiting.py" "$build/libexec/rgpu-worker" lookups
is "$rc $out" "0 ok" "so is who asks for more that waits for host functions" || diag "$err"
done_testing
