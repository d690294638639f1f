#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program under rgpu run finds the leased GPUs as on a GPU node: device files, /proc and /sys. The
# node itself stays as it is.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
[ -e "$interpose/libnvidia-ml.so.1" ] ||
    skip_all "no libnvidia-ml.so.1: no nvml.h (contrib/install-deps-debian.sh)"
compgen -G '/dev/nvidia*' > /dev/null && skip_all "this machine has NVIDIA's device files"

rgpud gpu1 'softgpu_devices = 3'
clients "gpu1=$control"
remote() { try 60 "$build/bin/rgpu" run --wait 20s "$@"; }
node=(python3 "$py/gpu_node.py")
mounts=$(grep -c . /proc/self/mountinfo)
can_user=
setpriv --reuid 65534 --regid 65534 --clear-groups \
    unshare -Urm mount -t tmpfs none /mnt 2> /dev/null && can_user=1

# --- whoever looks

seen_by()  # NAME COMMAND...
{
    local name=$1
    shift
    try 60 "$@" "$build/bin/rgpu" run --wait 20s -n 2 -- "${node[@]}"
    is "$rc:$(grep -v 'waiting for GPUs' <<< "$err")" "0:" "$name: rgpu run says nothing" ||
        diag "$out"
    is "$(head -n 1 <<< "$out")" \
        "devices nvidia-uvm nvidia-uvm-tools nvidia0 nvidia1 nvidiactl" "$name: the device files"
    is "$(grep -c '^gpu 7...:0[1-3]:00.0$' <<< "$out")" 2 \
        "$name: CUDA, NVML, /proc and /sys agree on two addresses of ours" || diag "$out"
    is "$(sort -u <<< "$out" | grep -c '^gpu')" 2 "$name: each has its own"
}

if [ "$(id -u)" = 0 ]; then
    unshare -m true 2> /dev/null || skip_all "no mount namespaces here"
    seen_by root env
else
    skip "not root" 4
fi
user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
if [ "$(id -u)" = 0 ] && [ -n "$can_user" ]; then
    seen_by "a user" "${user[@]}"
    try 60 "${user[@]}" "$build/bin/rgpu" run -n 1 -- id -u
    is "$out" 65534 "who runs it is who runs it"
    try 60 "${user[@]}" "$build/bin/rgpu" run -n 1 -- grep CapEff /proc/self/status
    like "$out" '0000000000000000$' "with no more rights than before"
    try 60 "${user[@]}" "$build/bin/rgpu" run -n 1 -- \
        python3 -c 'import os; master, slave = os.openpty(); print(os.isatty(slave))'
    is "$out" True "terminals can be made" || diag "$err"
else
    skip "users may make no user namespaces here" 7
fi

[ "$(id -u)" = 0 ] || { done_testing; exit; }

# --- and what else they find

remote -n 1 -- sh -c 'ls /dev | grep -v "^nvidia" | sort | sha256sum'
is "$out" "$(find /dev -mindepth 1 -maxdepth 1 -printf '%f\n' | sort | sha256sum)" \
    "the rest of /dev is there"
remote -n 1 -- sh -c 'echo x > /dev/null && head -c 8 /dev/urandom | wc -c && ls -d /dev/shm/. &&
    python3 -c "import os; m, s = os.openpty(); print(os.ttyname(s))"'
like "$out" '^8
/dev/shm/\.
/dev/pts/[0-9]+$' "devices, shared memory and terminals work" || diag "$err"
remote -n 1 -- sh -c 'touch /dev/x || touch /proc/driver/x || touch /sys/bus/pci/devices/x'
is "$rc:$(grep -c 'Read-only' <<< "$err")" 1:3 "nobody can write there" || diag "$out$err"
remote -n 1 -- findmnt -no OPTIONS /dev
like "$out" 'ro,.*nosuid.*noexec|ro,nosuid,noexec' "and no program is started from there" ||
    diag "$err"
remote -n 1 -- "$build/bin/rgpu" run -n 2 -- sh -c 'ls /dev | grep -c "^nvidia[0-9]"; ls \
    /sys/bus/pci/devices 2> /dev/null | grep -c "^7"'
like "$rc:$out" '^0:2
(2|0)$' "a run in a run sees its own" || diag "$err"

# --- the node

is "$(compgen -G '/dev/nvidia*')" "" "the node has no such files"
is "$(grep -c . /proc/self/mountinfo)" "$mounts" "nor any mount more"
remote -n 1 --no-devices -- sh -c 'ls /dev/nvidia*'
is "$rc:$out" "2:" "--no-devices leaves them out"

# --- where it cannot be done

try 60 setpriv --bounding-set -all --inh-caps -all "$build/bin/rgpu" run -n 1 -- \
    sh -c 'echo runs; ls /dev/nvidia0'
is "$rc:$out" "2:runs" "without the right to mount the program runs"
is "$(grep -c '^rgpu:' <<< "$err")" 1 "with one line on stderr" || diag "$err"
like "$err" 'JAX.* will find no GPU: no mount namespace can be made.*CAP_SYS_ADMIN' \
    "that says which programs find no GPU and what helps"
# Linux lets nobody in a chroot make a user namespace.
mkdir "$T/root"
# shellcheck disable=SC2016 # the inner shell's
try 60 unshare -m sh -c 'mount --rbind / "$1" && shift && exec chroot "$@"' sh "$T/root" "$T/root" \
    "${user[@]}" "$build/bin/rgpu" run -n 1 -- echo runs
is "$rc:$out" "0:runs" "nor without user namespaces is it stopped" || diag "$err"
is "$(grep -c '^rgpu:' <<< "$err")" 1 "one line again" || diag "$err"
like "$err" 'will find no GPU: no user namespace can be made.*user.max_user_namespaces' \
    "where a user's line names the setting" || diag "$err"

# --- a lease file that its user has written

lease()  # TEXT
{
    printf '%s' "$1" > "$T/bad.json"
    try 60 "$build/bin/rgpu" run --lease "$T/bad.json" -- sh -c \
        'ls /dev | grep -c "^nvidia[0-9]"; cat /proc/driver/nvidia/gpus/*/information 2> /dev/null'
}
servers() { printf '{"servers": [{"name": "../../etc", "gpus": [%s]}]}' "$1"; }
lease "$(servers '{"index": -7, "uuid": "../../../x", "name": "a\nMinor: 9\u0000\u00e9"}')"
is "$rc:$(head -n 1 <<< "$out")" "0:1" "odd names and numbers name no path" || diag "$out$err"
like "$out" 'Model:[[:space:]]+a\?Minor: 9\?' "and stay on one line" || diag "$out"
lease "$(servers "$(for _ in $(seq 600); do printf '{"index": 0},'; done)1")"
like "$rc:$err" "^0:.*names 601 GPUs|^1:.*names 601 GPUs" "too many GPUs are refused in one line"
lease '{"servers": 7'
like "$err" 'bad.json' "what is no lease file is named"
mkfifo "$T/fifo.json"
try 20 "$build/bin/rgpu" run --lease "$T/fifo.json" -- true
like "$rc:$err" '^0:.*fifo.json is no file' "nobody waits for a pipe"
done_testing
