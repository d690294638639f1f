#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Nothing that a worker does with its descriptors, signals or children lets it outlive its lease.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
. "$(dirname "$0")/lib/tenant.sh"
gone() { [ -z "$(processes "$1")" ]; }
free() { api GET /v1/inventory; [ "$(json 'sum(g["free_share"] for g in j["gpus"])')" = 200 ]; }
hold()
{
    echo hold > "$state/softgpu/TENANT"
    tenant "$1"
    two() { [ "$(processes "$lease" | wc -l)" -ge 2 ]; }
    wait_for 10 two || bail "the tenant has no second process"
}

tenant_rgpud gpu1
hold 4000000001
release "$lease"
ok "a worker that ignores SIGTERM, and a child in a session of its own, end with the lease" \
    wait_for 10 gone "$lease"
ok "... and the GPU is free" wait_for 10 free

# After a restart rgpud knows of a worker what the kernel says, whatever the worker has closed.
hold 4000000002
kept=$lease worker=$host_pid
kill -9 "$rgpud_pid"
wait "$rgpud_pid" 2> /dev/null
rm "$T/gpu1.ready"
tenant_rgpud gpu1 "control_port = $control" "data_port = $data"
is "$(logged gpu1 'worker [0-9]+ of an earlier rgpud lives')" 1 \
    "one that has closed all its descriptors is adopted"
ok "... and runs" test -e "/proc/$worker"
release "$kept"
ok "... until its lease ends" wait_for 10 gone "$kept"
ok "... and the GPU is free" wait_for 10 free
is "$(ls "$state/workers")" "" "nothing is kept of any"
stop "$rgpud_pid"
spawner() { pgrep -f "rgpu-spawner $state\$" > /dev/null; }
ended() { ! spawner; }
ok "a spawner that rgpud started ends when both have gone" wait_for 10 ended

# A worker that waits for a program ends with rgpud, and nobody asks the spawner to reap it.
rgpud gpu2
state=$T/gpu2.state
api POST /v1/offers '{"gpus": 1, "owner": {"uid": 0, "host": "here", "pid": 1}}'
api POST "/v1/offers/$(json 'j["id"]')/accept"
lease=$(json 'j["leases"][0]["id"]')
waits() { [ -n "$(processes "$lease")" ]; }
ok "a worker waits for a program" wait_for 10 waits
ok "... under a spawner" spawner
stop "$pid"
ok "... and ends with rgpud, as the spawner does" wait_for 10 ended ||
    diag "$(pgrep -a '^rgpu-[siw]')"
done_testing
