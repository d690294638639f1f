#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a worker can reach on the GPU host: as the job's user, with a filter of system calls, and a
# /dev of its own. And what rgpud itself keeps of root's rights.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

lease()
{
    api POST /v1/offers \
        "{\"gpus\": 1, \"owner\": {\"uid\": ${1:-0}, \"host\": \"here\", \"pid\": 1}}"
    api POST "/v1/offers/$(json 'j["id"]')/accept"
    lease=$(json 'j["leases"][0]["id"]')
    secret=$(json 'j["leases"][0]["secret"]')
}
hold()
{
    mkfifo "$T/$1.in"
    start "$1" sh -c \
        "exec python3 $root/t/lib/data_client.py $data $lease $secret --hold < $T/$1.in"
    exec 5> "$T/$1.in"
}
worker() { worker_pid=$(workers_of "$rgpud_pid"); [ -n "$worker_pid" ]; }
field() { sed -n "s/^$1:[[:space:]]*//p" "/proc/$2/status"; }
# Confined it is from before it reads anything; the filter is there once the driver is.
filtered() { worker && [ "$(field Seccomp "$worker_pid")" = 2 ]; }

[ "$(id -u)" = 0 ] && worker_user=nobody
rgpud gpu1
rgpud_pid=$pid
lease
hold first
ok "a worker has a filter of system calls" wait_for 20 filtered
is "$(field NoNewPrivs "$worker_pid")" 1 "... can gain no privileges"
is "$(field CapEff "$worker_pid") $(field CapPrm "$worker_pid") $(field CapInh "$worker_pid")" \
    "0000000000000000 0000000000000000 0000000000000000" "... and has none"
if [ "$(id -u)" = 0 ]; then
    is "$(field CapEff "$rgpud_pid")" 0000000000000000 "rgpud keeps none of root's rights"
    is "$(field CapBnd "$rgpud_pid")" "$(field CapEff "$rgpud_pid")" "... for good"
else
    skip "rgpud as root needs root" 2
fi
own_dev() { [ "$(readlink "/proc/$worker_pid/ns/mnt")" != "$(readlink /proc/self/ns/mnt)" ]; }
if [ "$(id -u)" != 0 ]; then
    skip "users and a /dev of its own need root" 8
else
    is "$(field Uid "$worker_pid" | cut -f1)" "$(id -u nobody)" "it is not root"
    if grep -q "workers see the host's /dev" "$T/gpu1.log"; then
        skip "no mount namespaces here" 7
    else
        ok "its mounts are its own" own_dev
        seen=$(ls "/proc/$worker_pid/root/dev" | tr '\n' ' ')
        is "$seen" "full null random shm urandom zero " \
            "its /dev has what programs need, and no device of the host"
        not_ok "nothing can be added to it" touch "/proc/$worker_pid/root/dev/x"
        is "$(head -c 2 "/proc/$worker_pid/root/dev/zero" | od -An -tx1)" " 00 00" \
            "what is there works"
        ok "the host's own /dev is as it was" test -e /dev/tty -a ! -e "$T/gpu1.state/dev/null"
        not_ok "... and no mount of the worker's is seen on the host" grep -q "$T/gpu1.state/dev" \
            /proc/self/mounts

        # What stands in the worker's place sees the same: a program that tries.
        cat > "$T/curious" <<'END'
#!/bin/sh
if [ -n "$1" ]; then
    printf '{"driver_version":13000,"gpus":[{"index":0,"uuid":"GPU-curious","name":"None",'
    echo '"memory":1000,"compute_capability":"8.0"}]}'
    exit
fi
{
    for file in /dev/kmsg /dev/mem /dev/tty /dev/vda /dev/sda /dev/kvm /dev/fuse; do
        cat $file 2>&1 | grep -q 'No such file' || echo "$file is there"
    done
    umount /dev 2>/dev/null && echo "it uncovered /dev"
    echo tried
} > "$RGPU_SOFTGPU_CACHE/told.new"
mv "$RGPU_SOFTGPU_CACHE/told.new" "$RGPU_SOFTGPU_CACHE/told"
END
        chmod 755 "$T/curious"
        exec 5>&-
        stop "$rgpud_pid"
        rgpud gpu2 "worker = \"$T/curious\"" "driver = \"$T/curious\""
        lease
        hold second
        told=$T/gpu2.state/cache/$(id -u nobody)/told
        wait_for 20 test -e "$told"
        is "$(cat "$told")" tried "devices of the host cannot be opened: there are none"
    fi
fi
exec 5>&-

# --- whoever runs as root all the same (loopback alone lets them) has none of root's rights

worker_user=$(id -un)
rgpud gpu3
rgpud_pid=$pid
lease
hold third
wait_for 20 filtered
is "$(field CapEff "$worker_pid")" 0000000000000000 \
    "a worker of worker_user = \"$worker_user\" has no capability"
exec 5>&-

# --- what the kernel's log has of it

if [ "$(id -u)" = 0 ] && dmesg > /dev/null 2>&1; then
    is "$(dmesg | grep -c "pid=$worker_pid comm=\"rgpu-worker\".* syscall=435 ")" 0 \
        "a worker's threads leave no line in the kernel's log (clone3, which glibc tries)"
else
    skip "needs the kernel's log"
fi

# --- switched off, to find out

rgpud gpu4 'confine_workers = false'
rgpud_pid=$pid
lease
hold fourth
wait_for 20 worker
is "$(field Seccomp "$worker_pid") $(field NoNewPrivs "$worker_pid")" "0 1" \
    "confine_workers = false: no filter, and no privileges either"
exec 5>&-

# --- what the driver asks beside the list of a software GPU's worker, to find out

rgpud gpu5 'confine_workers = "log"'
rgpud_pid=$pid
lease
hold fifth
wait_for 20 filtered
is "$(field Seccomp "$worker_pid") $(field Seccomp_filters "$worker_pid")" "2 3" \
    'confine_workers = "log": one filter more, which logs'
exec 5>&-
done_testing
