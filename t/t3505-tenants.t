#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two tenants whom the host does not know, each in full control of his worker: neither reaches the
# other's.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
. "$(dirname "$0")/lib/tenant.sh"
look() { json "$1" "$found"; }

tenant_rgpud gpu1
tenant 4000000001
first=$found first_lease=$lease first_pid=$host_pid
echo "$first_pid" > "$state/softgpu/victim"
tenant 4000000002
second=$found second_lease=$lease
first_uid=$(json 'j["uid"]' "$first") second_uid=$(json 'j["uid"]' "$second")
[ "$first_uid" -ge 2000000000 ] && [ "$second_uid" -ge 2000000000 ]
is "$?" 0 "tenants without an account run as ids of worker_uids" || diag "$first_uid $second_uid"
isnt() { [ "$1" != "$2" ]; }
ok "... each as another" isnt "$first_uid" "$second_uid"
is "$(look 'j["gid"] == j["uid"] and not j["groups"]')" True "... in no group of the host's" ||
    diag "$second"
is "$(look 'j["capabilities"], j["bounded"]')" "('0000000000000000', '1')" \
    "... without capabilities, for good"
ok "... and rgpud is neither" isnt "$(stat -c %u "/proc/$rgpud_pid")" "$second_uid"

if grep -q 'no namespaces here' "$T/gpu1.log"; then
    skip "no namespaces here" 5
else
    is "$(look 'j["sees"] == [1, j["pid"]]')" True \
        "he sees his own processes, and the first of his namespace" || diag "$second"
    is "$(look 'j["init"]')" PermissionError "... which he cannot end"
    not_same()
    {
        [ "$(json 'sorted(j["spaces"].values())' "$first")" != \
            "$(json 'sorted(j["spaces"].values())' "$second")" ]
    }
    ok "his namespaces are his own" not_same
    is "$(look 'j["shared"]')" FileNotFoundError "the other's IPC is not there"
    is "$(look 'j["devices"]')" "['full', 'null', 'random', 'shm', 'urandom', 'zero']" \
        "nor is a device of the host's"
fi
like "$(look 'j["memory"]')" 'Error' "the other's memory cannot be opened"
like "$(look 'j["signal"]')" 'Error' "... nor its process signalled"

# --- one job, two leases

tenant 4000000003 17
one=$found
tenant 4000000003 17
is "$(json 'j["uid"], j["spaces"]' "$one")" "$(look 'j["uid"], j["spaces"]')" \
    "leases of one job share user and namespaces"
job_lease=$lease
tenant 4000000004 17
is "$(json 'j["uid"]' "$one" | grep -c "^$(look 'j["uid"]')$")" 0 \
    "... but no other owner who says that he is of that job"

# --- who comes after

echo own > "$state/softgpu/TENANT"
tenant 4000000005
before=$lease
release "$before"
ended() { [ -z "$(processes "$before")" ]; }
ok "a tenant leaves a file behind" wait_for 10 ended
echo > "$state/softgpu/TENANT"
tenant 4000000006
is "$(look 'j["own"]')" "$(json 'j["own"]' "$first")" "... and the next finds nothing of it"
is "$(ls "$state/own" 2> /dev/null)" "" "... nor does the host"
for id in "$first_lease" "$second_lease"; do release "$id"; done

# --- who may look into a worker

# What cannot be dumped belongs to root below /proc, whoever runs it (proc(5)).
worker_user=nobody
looks_into()  # NAME LINE...: sets $owner, of a waiting worker's memory, and $worker_uid
{
    rgpud "$@"
    local server=$pid worker
    clients "$1=$control"
    "$build/bin/rgpu" request -n 1 --server "$1" -o "$T/$1.lease" > /dev/null || return
    confined()
    {
        worker=$(workers_of "$server" | head -n 1)
        grep -qs '^Seccomp:.*2' "/proc/${worker:-0}/status"
    }
    wait_for 20 confined || return
    owner=$(stat -c %u "/proc/$worker/mem")
    worker_uid=$(awk '$1 == "Uid:" {print $2}' "/proc/$worker/status")
}
looks_into gpu2 "driver = \"$softgpu/libcuda.so.1\""
is "$? $owner" "0 0" "of a driver that is not our own, a worker cannot be looked into or dumped" ||
    diag "$(tail -n 5 "$T/gpu2.log")"
ok "... and is no root's" isnt "$worker_uid" 0
looks_into gpu3
is "$? $owner" "0 $worker_uid" "with software GPUs the job's other workers can, for CUDA IPC" ||
    diag "$(tail -n 5 "$T/gpu3.log")"
done_testing
