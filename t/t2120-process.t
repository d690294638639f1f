#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# fork, exec, dlclose, closed descriptors and every kind of exit, with remote GPUs in the process.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

# No worker but those of programs.
rgpud gpu1 'warm = false' 'softgpu_memory = "64M"'
rgpud_pid=$pid
clients "gpu1=$control"
no_worker() { [ -z "$(workers_of "$rgpud_pid")" ]; }

good()  # CASE, NAME
{
    try 40 "$build/bin/rgpu" run --wait 20s -- python3 "$root/t/lib/process_cases.py" "$1"
    is "$rc" 0 "$2" || diag "$out$err"
}

good fork "the child of a fork gets CUDA_ERROR_NOT_INITIALIZED and exits; the parent goes on"
good fork_before "before cuInit parent and child of a fork each may begin"
good exec "exec and children that exec have connections of their own"
good dlclose "dlclose, and the driver opened again"
good subprocess "subprocesses that close descriptors"
sentence="a program that closes all descriptors: nothing of ours is written to, or read from, "
sentence+="what has their numbers then"
good closed "$sentence"
like "$err" \
    "the program has closed the connection's descriptor; every CUDA call fails from now on" \
    "... and is told why"
good exit "exit with calls under way"
good quick_exit "_exit"
good exit_in_thread "exit while four threads are in calls"
try 40 "$build/bin/rgpu" run --wait 20s -- python3 "$root/t/lib/process_cases.py" killed
is "$rc" 137 "killed"
try 40 "$build/bin/rgpu" run --wait 20s -- python3 "$root/t/lib/process_cases.py" aborted
is "$rc" 134 "aborted"

# The lease outlives the program here, so that only the connection can end the worker.
try 40 "$build/bin/rgpu" run --wait 20s -- bash -c 'python3 "$0/t/lib/process_cases.py" daemon
    . "$0/t/lib/rgpud.sh"
    for i in $(seq 100); do [ -n "$(workers_of "$1")" ] || exit 0; sleep 0.05; done; exit 1' \
        "$root" "$rgpud_pid"
is "$rc" 0 "a forked child that outlives its parent does not keep the worker" || diag "$out$err"
ok "no worker is left" wait_for 5 no_worker
done_testing
