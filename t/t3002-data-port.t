#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The data port: who does not hold a lease gets nothing, with one line in the log; who does gets a
# worker of their own, which ends with the connection or with the lease.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

client() { try 20 python3 "$root/t/lib/data_client.py" "$data" "$@"; }
refusals() { logged gpu1 'data port: .* refused'; }
one_more() { [ "$(refusals)" = $((before + 1)) ]; }
workers() { workers_of "$rgpud_pid" | wc -l; }
no_workers() { [ "$(workers)" = 0 ]; }
one_worker() { [ "$(workers)" = 1 ]; }
lease()  # [TERM_MS]
{
    api POST /v1/offers \
        '{"gpus": 1, "term_ms": '"${1:-0}"', "owner": {"uid": 0, "host": "here", "pid": 1}}'
    api POST "/v1/offers/$(json 'j["id"]')/accept"
    lease=$(json 'j["leases"][0]["id"]')
    secret=$(json 'j["leases"][0]["secret"]')
}

# A worker starts when a connection has proved itself, so that it can be told by it.
rgpud gpu1 'warm = false' 'handshake_timeout = "3s"' 'max_handshakes = 2'
rgpud_pid=$pid
wrong=$(printf '00%.0s' $(seq 32))

refused()  # NAME, REGEX OF THE LOG LINE, COMMAND...
{
    before=$(refusals)
    local name=$1 regex=$2
    shift 2
    "$@"
    ok "$name: one line in the log" wait_for 10 one_more
    like "$(grep 'data port' "$T/gpu1.log" | tail -n 1)" "$regex" "... which says why"
    ok "... and no worker" no_workers
}
send() { printf '%b' "$1" > "/dev/tcp/127.0.0.1/$data"; }
connect() { exec 9<> "/dev/tcp/127.0.0.1/$data"; timeout 5 cat <&9 > "$T/said"; exec 9>&-; }

lease
refused "garbage" 'does not speak rgpu' send "$(printf 'G%.0s' $(seq 400))"
refused "a hello that is cut" 'refused' send 'RGPU\x01\x00'
refused "a connection that closes at once" 'refused' send ''
refused "a connection that says nothing" 'refused' connect
refused "a wrong secret" 'wrong secret' client "$lease" "$wrong"
like "$out" 'refused: this lease is not known here, or has ended' "... and the client is told"
refused "an unknown lease" 'unknown or expired lease' client "$wrong" "$wrong"
like "$out" 'refused: this lease is not known here, or has ended' "... in the same words"
lease 1000
gone() { api GET /v1/leases && ! grep -q "$lease" <<< "$body"; }
wait_for 10 gone
refused "an expired lease" 'unknown or expired lease' client "$lease" "$secret"

lease
exec 7<> "/dev/tcp/127.0.0.1/$data" 8<> "/dev/tcp/127.0.0.1/$data"
two_pending() { head -c 40 <&7 | grep -q RGPU && head -c 40 <&8 | grep -q RGPU; }
two_pending
# Whoever holds all of them and says nothing keeps nobody out: the oldest makes room for the one who
# comes.
before=$(refusals)
start third python3 "$root/t/lib/data_client.py" "$data" "$lease" "$secret"
accepted() { grep -q 'accepted proved' "$T/third.log"; }
ok "a third handshake where two are allowed is served" wait_for 10 accepted
ok "... and the oldest of the two makes room: one line in the log" wait_for 10 one_more
like "$(grep 'data port: .* refused' "$T/gpu1.log" | tail -n 1)" 'max_handshakes' \
    "... which says why"
ok "... it is closed" timeout 5 cat <&7
exec 7>&- 8>&-
api DELETE "/v1/leases/$lease"
wait_for 10 no_workers
# A handshake that somebody listened to, said again.
api POST /v1/offers '{"gpus": 1, "owner": {"uid": 0, "host": "here", "pid": 1}}'
api POST "/v1/offers/$(json 'j["id"]')/accept"
replay()
{
    PYTHONPATH=$root/t/lib python3 "$py/replay_hello.py" "$data" "$(json 'j["leases"][0]["id"]')" \
        "$(json 'j["leases"][0]["secret"]')"
}
is "$(replay)" "1 0 0 " "a hello is good once: said again, it is refused"
api DELETE "/v1/leases/$(json 'j["leases"][0]["id"]')"
wait_for 10 no_workers

# --- served

api GET /v1/leases
lease=$(json 'j["leases"][0]["id"]')
api GET '/v1/leases?secrets=1'
secret=$(json 'j["leases"][0]["secret"]')
after_it() { [ "$(logged gpu1 'data port: .* refused')" -ge $((before + 3)) ]; }
wait_for 10 after_it

hold()
{
    mkfifo "$T/$1.in"
    start "$1" sh -c \
        "exec python3 $root/t/lib/data_client.py $data $lease $secret --hold < $T/$1.in"
    exec 5> "$T/$1.in"
}
hold first
ok "whoever holds the secret is accepted, and sees that the server holds it" wait_for 10 grep -q \
    'accepted proved' "$T/first.log"
ok "... and has a worker" wait_for 10 one_worker
api GET /v1/leases
is "$(json 'j["leases"][0]["workers"]')" 1 "... which the lease's list counts"
exec 5>&-
ok "the worker ends with its connection" wait_for 10 no_workers

hold second
wait_for 10 one_worker
before=$(logged gpu1 'data port: .* refused')
try 20 python3 "$root/t/lib/data_client.py" "$data" "$lease" "$secret" --lane 81985529216486895
is "$out" "accepted proved
heard 0" "a lane for a worker that there is not is closed"
ok "... one line in the log" wait_for 10 one_more
like "$(tail -n 1 "$T/gpu1.log")" 'refused as a lane: lease .*: it has no worker of that number' \
    "... which says so"
api DELETE "/v1/leases/$lease"
ok "... and with its lease" wait_for 5 no_workers
exec 5>&-
unlike "$(cat "$T/gpu1.log")" "$secret" "the log holds no secret"
api GET /v1/health
is "$code" 200 "rgpud serves on"
stop "$rgpud_pid"

# --- a worker that does not listen, and what it is given

cat > "$T/stubborn" <<'EOF'
#!/bin/sh
if [ "$1" = --inventory ]; then
    printf '{"driver_version":13000,"gpus":[{"index":0,"uuid":"GPU-stubborn","name":"None",'
    echo '"memory":1000,"compute_capability":"8.0"}]}'
    exit
fi
[ $# = 0 ] || exit 1
trap '' TERM
{
    env
    id -u
    grep NoNewPrivs /proc/self/status
    ls -l /proc/$$/fd
} > "$RGPU_SOFTGPU_CACHE/told.new"
mv "$RGPU_SOFTGPU_CACHE/told.new" "$RGPU_SOFTGPU_CACHE/told"
while :; do sleep 1; done
EOF
chmod 755 "$T/stubborn"
[ "$(id -u)" = 0 ] && worker_user=nobody
export RGPU_SECRET_OF_RGPUD=1
rgpud gpu2 'warm = false' "worker = \"$T/stubborn\"" "driver = \"$T/stubborn\""
rgpud_pid=$pid
lease
hold third
ok "a worker starts" wait_for 10 test -e "$T/gpu2.state/cache/$(id -u "$worker_user")/told"
told=$(cat "$T/gpu2.state/cache/$(id -u "$worker_user")/told")
like "$told" "RGPU_WORKER_LEASE=$lease" "it is told its lease"
like "$told" 'CUDA_VISIBLE_DEVICES=GPU-stubborn' "... its GPUs"
like "$told" "RGPU_DRIVER=$T/stubborn" "... and the driver"
unlike "$told" "$secret|RGPU_SECRET_OF_RGPUD" "but neither the secret nor rgpud's environment"
like "$told" 'NoNewPrivs:.1' "it can gain no privileges"
if [ "$(id -u)" = 0 ]; then
    like "$told" "$(printf '\n')$(id -u nobody)" "root's lease has a worker that is not root"
else
    skip "needs root"
fi
is "$(grep -c ' 3 -> socket' <<< "$told") $(grep -cE \
    ' (5|[7-9]|[1-9][0-9]+) -> (socket|anon|/dev/tcp)' <<< "$told")" "1 0" \
    "its socket is descriptor 3, its place at the scheduler 6, and no other of rgpud's is open"
free_share() { api GET /v1/inventory; json 'j["gpus"][0]["free_share"]'; }
api DELETE "/v1/leases/$lease"
is "$(free_share)" 0 "its GPU is nobody else's while it lives"
ok "a worker that ignores SIGTERM is killed" wait_for 6 no_workers
is_free() { [ "$(free_share)" = 100 ]; }
ok "... and then its GPU is free" wait_for 5 is_free
like "$(cat "$T/gpu2.log")" 'worker [0-9]+ was ended by signal 9' "... and the log says so"
exec 5>&-
done_testing
