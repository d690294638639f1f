#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# However a job ends, within five seconds its GPUs are free and no worker of it is left.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up
steady=$build/cuda/steady-static
[ -x "$steady" ] || skip_all "$steady is not built; run make cuda"

# begin HOW...: a job whose program uses a GPU; returns when it does.
begin()
{
    mark=$T/mark.$((++marks))
    "$@" || return 1
    wait_for 60 [ -e "$mark" ] || { cat "$T"/out.* >&2; return 1; }
    [ -n "$(workers)" ] || { echo "no worker runs"; return 1; }
    ! all_free > /dev/null || { echo "the pool is free while the job runs"; return 1; }
}
marks=0
batch() { submitted --gres=rgpu:1 -o "$T/out.%j" --wrap "exec $steady $mark"; }
# The program is not the batch script's own process, and not slurmstepd's child.
nested() { submitted --gres=rgpu:1 -o "$T/out.%j" --wrap "sh -c '$steady $mark; true'; true"; }
by_srun()
{
    start srun.$marks srun --gres=rgpu:1 "$steady" "$mark"
    srun=$pid
    has_job() { job=$(squeue -h -n steady-static -t R -o %i); [ -n "$job" ]; }
    wait_for 20 has_job
}
in_step() { submitted --gres=rgpu:1 -o "$T/out.%j" --wrap "srun $steady $mark"; }
program() { pgrep -f "^$steady $mark\$"; }
program_gone() { [ -z "$(program)" ] || { ps -fp $(program); return 1; }; }

# freed NAME: measures and tests the five seconds.
freed()
{
    local started=${EPOCHREALTIME/./}
    ok "$1: everything is free within five seconds" wait_for 5 all_free
    note "free after $(((${EPOCHREALTIME/./} - started) / 1000)) ms"
}

try 60 srun --gres=rgpu:1 "$build/cuda/vector_add-static"
is $rc 0 "a program uses a GPU and ends" || diag "$out$err"
freed "normal end"

ok "a batch job uses a GPU" begin batch
scancel "$job"
freed "scancel"

# Slurm runs the controller's epilog when it says SIGTERM, and the program may go on for KillWait:
# to keep its work.
mkfifo "$T/lines"
submitted --gres=rgpu:1 -o "$T/out.late" --wrap \
    "trap '' TERM; exec $build/cuda/steps-static $T/lines"
ok "a program takes its time to end" wait_for 60 grep -qs "^step 1" "$T/out.late"
scancel "$job"
ok "... its job is cancelled" wait_for 20 is_state "$job" COMPLETING
printf '\n\n' > "$T/lines"
ok "... and it has its GPU to its end" wait_for 20 grep -q "^good" "$T/out.late" ||
    diag "$(cat "$T/out.late")"
freed "a program that took its time"

ok "a job of srun uses a GPU" begin by_srun
scancel "$job"
freed "scancel of srun's job"
stop "$srun"

ok "another uses a GPU" begin by_srun
kill -TERM "$srun"
freed "srun ended by SIGTERM"
stop "$srun"

ok "another uses a GPU" begin batch
kill -9 $(program)
freed "program killed"

ok "a program below a shell uses a GPU" begin nested
kill -9 $(stepds "$job")
freed "slurmstepd of a batch job killed"
ok "its program is gone, too" wait_for 5 program_gone
ok "Slurm knows that the job has ended" wait_for 10 is_state "$job" CANCELLED

ok "a job of srun uses a GPU" begin by_srun
kill -9 $(stepds "$job")
freed "slurmstepd of srun's job killed"
ok "its program is gone, too" wait_for 5 program_gone
kill -9 "$srun"; wait "$srun" 2> /dev/null  # it would wait KillWait + 2 s for the slurmstepd

ok "a step of a batch job uses a GPU" begin in_step
kill -9 $(stepds "$job")
freed "both slurmstepds of a job killed"
ok "its program is gone, too" wait_for 5 program_gone

submitted --gres=rgpu:1 -o "$T/out.%j" --wrap "$steady $T/mark.two & srun --overlap true; wait"
ok "a job whose step has ended keeps its GPU" wait_for 60 [ -e "$T/mark.two" ]
scancel "$job"
freed "a job with several steps cancelled"

idle() { [ "$(sinfo -h -N -o %T | sort -u)" = idle ]; }
ok "no node was drained by any of it" wait_for 40 idle
done_testing
