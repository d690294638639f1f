#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What people are told of jobs that cannot be served, or wait in their prolog: refused at submit,
# held with the reason, said on the terminal.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"

is_held() { [[ "$(job_state "$1") $(job_reason "$1")" =~ ^PENDING\ .*[Hh]eld ]] ||
    { scontrol show job "$1"; return 1; }; }
has_note() { [[ $(note_of "$1") =~ $2 ]] || { scontrol show job "$1"; return 1; }; }

# --- at submit

try 20 srun --gres=rgpu:1 --rgpu-uuid=GPU-11111111-2222-3333-4444-555555555555 true
is $rc 1 "a GPU that no server has is refused at submit"
like "$err" 'rgpu: --rgpu-uuid=GPU-1111.*: no server of the pool has this GPU' \
    "... with a sentence that names it"
try 20 srun --gres=rgpu:1 --rgpu-uuid="$(first_gpu)" true
is $rc 0 "one that a server has is given"
try 20 srun --gres=rgpu:2 --rgpu-uuid="$(first_gpu)" true
like "$err" 'names 1, but 2 GPUs were asked for' "fewer UUIDs than GPUs are refused"

# --- in the prolog: job_submit does not know the pool, so that only the servers can tell

rm "$cluster/run/pool.snapshot"
try 40 srun --gres=rgpu:1 --rgpu-uuid=GPU-none true
is $rc 1 "a job that no server can ever serve ends"
like "$err" 'srun: rgpu: job [0-9]+: no server can ever give this: ' \
    "... and srun says why, before Slurm's own words"
submitted --gres=rgpu:1 --rgpu-uuid=GPU-none --wrap true
ok "a batch job that no server can ever serve is held" wait_for 40 is_held "$job"
told="^rgpu: no server can ever give this: .*; it is held: when that is mended, scontrol release "
like "$(note_of "$job")" "$told$job$" "... with the reason, and the way out"
is "$(restarts "$job")" 1 "... after one try"
idle() { [ "$(sinfo -h -N -o %T | sort -u)" = idle ]; }
ok "... and no node is drained" wait_for 20 idle
scancel "$job"

cp "$RGPU_CONF" "$T/good.conf"
echo 'waait = "1m"' >> "$RGPU_CONF"
submitted --gres=rgpu:1 --wrap true
ok "a job that meets a typing error in the controller's rgpu.conf is held" wait_for 40 is_held \
    "$job"
like "$(note_of "$job")" '^rgpu: .*rgpu.conf.*waait.*; it is held' "... with what is wrong"
cp "$T/good.conf" "$RGPU_CONF"
rgpu slurm sync > /dev/null
scontrol release "$job"
start_now "$job"
ok "mended and released, it runs" wait_for 60 is_state "$job" COMPLETED

# --- what waits in a prolog

wait_for 20 all_free
submitted --gres=rgpu:2 --rgpu-server=gpu1 --wrap "$(until_file "$T/end")"; first=$job
wait_for 20 is_state "$first" RUNNING
start waits srun --gres=rgpu:1 --rgpu-server=gpu1 sh -c 'echo mine'
waiting() { second=$(squeue -h -t CF -o %A); [ -n "$second" ]; }
ok "a job whose GPUs are in use, though licences are free, waits in its prolog" wait_for 20 waiting
ok "after two seconds its comment says for what, since when, and who has it" wait_for 20 has_note \
    "$second" "^rgpu: waits for 1 GPU since 20[-0-9T:]+: gpu1: .*; held by job $first \(since 20"
said() { grep -q "rgpu: job $second: waits for 1 GPU since .*held by job $first" "$T/waits.log"; }
ok "... and so does its srun" wait_for 10 said
touch "$T/end"
got() { grep -q '^mine$' "$T/waits.log"; }
ok "it runs when the other has ended" wait_for 40 got
like "$(cat "$T/waits.log")" "rgpu: job $second: has its GPUs" "... and srun says so"
like "$(note_of "$second")" '^rgpu: waited [0-9]+ s for its GPUs' \
    "... and its comment how long it waited"
done_testing
