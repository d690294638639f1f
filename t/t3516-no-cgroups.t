#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A host without cgroups: rgpud says so, each worker has resource limits of its own, and nothing of
# a tenant outlives his lease all the same, with namespaces and without.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
. "$(dirname "$0")/lib/tenant.sh"

# In a mount namespace of its own, in which /sys/fs/cgroup is empty.
cat > "$T/rgpud" <<END
#!/bin/sh
exec unshare --mount sh -c 'mount -t tmpfs none /sys/fs/cgroup && exec "\$0" "\$@"' \
    $build/sbin/rgpud "\$@"
END
chmod 755 "$T/rgpud"
unshare --mount mount -t tmpfs none /sys/fs/cgroup 2> /dev/null ||
    skip_all "no mount namespace can be made here"
rgpud_program=$T/rgpud

gone() { [ -z "$(processes "$1")" ]; }
two() { [ "$(processes "$lease" | wc -l)" -ge 2 ]; }
# A tenant who ignores SIGTERM, with a child in a session of its own that holds all he has.
hold()  # OWNER
{
    echo hold > "$state/softgpu/TENANT"
    tenant "$1"
    wait_for 10 two || bail "the tenant has no second process"
}

tenant_rgpud gpu1 'worker_memory = "64M"' 'worker_pids = 64'
is "$(logged gpu1 'workers are limited one by one \(rlimits\), not job by job: .+')" 1 \
    "the log says that there are no cgroups, and why"
hold 4000000001
limit() { sed -n "s/^Max $1  *\([0-9a-z]*\) .*/\1/p" "/proc/$host_pid/limits"; }
# One worker with 64 threads and 64 to spare, beside 4096 processes that may be its user's.
is "$(limit processes)" $((64 + 64 + 4096)) "a worker may have so many processes"
# 64 MiB, twice what the lease has of 64 MiB of GPU memory, and the stacks of 128 threads.
is "$(limit 'data size')" $(((64 + 128 * 8) * 1048576 + 2 * (64 * 1048576 / 10))) \
    "... and so much memory"
if grep -q 'no namespaces here' "$T/gpu1.log"; then
    skip "no namespaces here"
else
    release "$lease"
    ok "with namespaces all of him ends with his lease" wait_for 10 gone "$lease"
fi

tenant_rgpud gpu2 'confine_workers = "false"'
hold 4000000002
first=$lease
tenant 4000000003
second=$lease
release "$first"
ok "without namespaces all of a user id of its own ends with its lease" wait_for 10 gone "$first"
is "$(processes "$second" | wc -l)" 2 "... and nobody else" || diag "$(processes "$second")"
release "$second"
ok "... whose time comes later" wait_for 10 gone "$second"

# What a worker can get.
ok "t/hostile/bomb.c" cc -O1 -pthread -o "$T/bomb" "$root/t/hostile/bomb.c"
mkdir -m 1777 "$T/told"
printf '#!/bin/sh\n[ $# = 0 ] || exec %s/libexec/rgpu-worker "$@"\nexec %s mapped %s\n' "$build" \
    "$T/bomb" "$T/told/mapped" > "$T/bomber"
chmod 755 "$T/bomber" "$T/bomb"
rgpud gpu3 'worker_memory = "64M"' 'worker_pids = 64' "worker = \"$T/bomber\""
api POST /v1/offers '{"gpus": 1, "owner": {"uid": 4000000004, "host": "here", "pid": 1}}'
api POST "/v1/offers/$(json 'j["id"]')/accept"
wait_for 20 test -s "$T/told/mapped" || diag "$(tail -n 5 "$T/gpu3.log")"
mapped=$(cat "$T/told/mapped")
ok "of 8 GiB of address space for data a worker gets $mapped MiB" test "$mapped" -gt 64 -a \
    "$mapped" -le $((64 + 128 + 128 * 8))
release "$(json 'j["leases"][0]["id"]')"
done_testing
