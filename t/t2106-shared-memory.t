#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Memory that processes of a job share by descriptors: through the workers of one lease, for every
# pair of devices, with a cap on memory and without. What another lease's program knows of a
# descriptor gives it nothing.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

rgpud gpu1 'softgpu_devices = 2' 'softgpu_memory = "256M"'
clients "gpu1=$control"
features=$build/cuda/features
run() { try 120 "$build/bin/rgpu" run --wait 20s "$@"; }

run -n 2 -- "$features/fd_processes"
is "$rc $out" "0 right" "processes share memory by descriptors" || diag "$err"
run -n 2 --memory 64M -- "$features/fd_processes"
is "$rc $out" "0 right" "... with a cap on memory, to the last byte of it" || diag "$err"
run -n 2 -- "$features/pool_processes"
is "$rc $out" "0 right" "processes share a memory pool" || diag "$err"
run -n 2 --memory 128M -- "$features/pool_processes"
is "$rc $out" "0 right" "... with a cap on memory" || diag "$err"

# A program holds memory with a descriptor, and others know what is in it.
mkfifo "$T/in"
cat > "$T/within" <<EOF
"$features/fd_processes" hold "$T/name" < "$T/in" & exec 3> "$T/in"
while ! test -e "$T/name"; do sleep 0.02; done
"$features/fd_processes" use "$T/name"
touch "$T/ready"
while ! test -e "$T/done"; do sleep 0.02; done
exec 3>&-
wait
EOF
start within "$build/bin/rgpu" run -n 1 --wait 20s -- sh "$T/within"
wait_for 30 test -e "$T/ready" || diag "$(cat "$T/within.log")"
run -n 1 -- "$features/fd_processes" use "$T/name"
is "$rc $out" "0 1" "a program of another lease gets nothing for it" || diag "$err"
touch "$T/done"
wait_for 20 grep -q right "$T/within.log"
is "$(cat "$T/within.log")" "0
right" "a program of the same lease gets the memory"
# Workers leave nothing in /dev/shm.
none() { [ -z "$(find /dev/shm -maxdepth 1 -name 'rgpu-mailbox-*' -newer "$T/in" 2> /dev/null)" ]; }
wait_for 20 none
is "$(find /dev/shm -maxdepth 1 -name 'rgpu-mailbox-*' -newer "$T/in" 2> /dev/null)" "" \
    "no mailbox is left"
done_testing
