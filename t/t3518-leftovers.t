#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Hostile: what a worker is given and does not take, and what it leaves to another process when it
# ends, is bounded: rgpud, the scheduler and the tenant's neighbours have room.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
. "$(dirname "$0")/lib/tenant.sh"

cat > "$T/worker" <<EOF
#!/bin/sh
[ \$# = 0 ] || exec $build/libexec/rgpu-worker "\$@"
exec $python $root/t/lib/hoards.py $build/libexec/rgpu-worker
EOF
chmod 755 "$T/worker"
worker_user=nobody
# Of what lies untaken in sockets a user has as much as descriptors.
ulimit -n 512
rgpud gpu1 "worker = \"$T/worker\"" 'worker_starts = 1000' 'warm = false'
cleanup_do release_all "$control"
rgpud_pid=$pid state=$T/gpu1.state
chmod 1777 "$state/softgpu"
lease()  # UID WHAT: a tenant whose workers do that; sets $lease, $secret
{
    echo "$2" > "$state/softgpu/TENANT"
    api POST /v1/offers \
        "{\"gpus\": 1, \"share\": 10, \"owner\": {\"uid\": $1, \"host\": \"here\", \"pid\": 1}}"
    api POST "/v1/offers/$(json 'j["id"]')/accept"
    lease=$(json 'j["leases"][0]["id"]')
    secret=$(json 'j["leases"][0]["secret"]')
}
client() { try 20 python3 "$root/t/lib/data_client.py" "$data" "$lease" "$secret" "$@"; }
descriptors() { ls "/proc/$1/fd" | wc -l; }
neighbour()
{
    local before
    before=$(logged gpu1 'goes without turns')
    lease 4000000009 ours
    client --speak "this is no frame at all"
    is "$(logged gpu1 "lease ${lease:0:8}: worker [0-9]+ for 127")" 1 \
        "... and a neighbour gets a worker" || diag "$(tail -n 5 "$T/gpu1.log")"
    is "$(logged gpu1 'goes without turns')" "$before" "... with its turns"
    release "$lease"
}

# --- lanes that nobody takes

lease 4000000001 lanes
client
wait_for 20 test -s "$state/softgpu/$lease.number" || bail "no worker: $(tail "$T/gpu1.log")"
number=$(cat "$state/softgpu/$lease.number")
try 60 python3 "$root/t/lib/many_lanes.py" 900 "$data" "$lease" "$secret" "$number"
is "$out" 900 "900 lanes come for a worker that takes none"
refused() { logged gpu1 'refused as a lane.*have not taken 128 lanes yet'; }
ok "... 128 of them wait for it, and more are refused" test "$(refused)" -gt 0 ||
    diag "$(tail -n 5 "$T/gpu1.log")"
is "$(logged gpu1 'Too many references')" 0 "... and rgpud can give descriptors to others"
neighbour
release "$lease"

# --- what ended workers leave

lease 4000000002 leave
scheduler=$(pgrep -P "$rgpud_pid" rgpu-scheduler)
client
ended() { [ "$(logged gpu1 "lease ${lease:0:8}: worker [0-9]+ ended")" -ge "$1" ]; }
wait_for 20 ended 1
before=$(descriptors "$rgpud_pid") board=$(descriptors "$scheduler")
for _ in $(seq 40); do client; done
ok "40 workers end, and leave a process each that keeps what they had" wait_for 20 ended 41
held() { processes "$lease" | wc -l; }
ok "... $(held) processes live" test "$(held)" -ge 20
ok "rgpud has $(($(descriptors "$rgpud_pid") - before)) descriptors of them" test \
    $(($(descriptors "$rgpud_pid") - before)) -le 12
ok "the scheduler has $(($(descriptors "$scheduler") - board)) descriptors of them" test \
    $(($(descriptors "$scheduler") - board)) -le 18
neighbour
release "$lease"
free() { [ "$(held)" = 0 ]; }
ok "none of them outlives the lease" wait_for 10 free
done_testing
