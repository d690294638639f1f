#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rgpu why: a user whose job is pending is told for what it waits, who holds that, until when, and
# what would start now.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"
field() { json_value "j$1" <<< "$out"; }

submitted -t 60 --gres=rgpu:2 --wrap "$(until_file "$T/end")"; first=$job
submitted -t 10 --gres=rgpu:1 --wrap "$(until_file "$T/end")"; second=$job
for job in "$first" "$second"; do
    ok "a job holds GPUs" wait_for 60 is_state "$job" RUNNING
done
submitted --gres=rgpu:2 --wrap true; waiting=$job
lacks() { [ "$(job_reason "$waiting")" = Licenses ] || { squeue; return 1; }; }
ok "another waits for licences" wait_for 60 lacks

try 20 rgpu why "$waiting"
is "$rc" 0 "rgpu why: the status says that it waits"
like "$out" "^job $waiting of $(id -un) wants 2 GPUs and waits since 20[0-9-]+T[0-9:]+:" \
    "... since when, and what it wants"
like "$out" 'not enough GPUs of the pool are free
 +1 of 4 GPUs are not taken by jobs, and it needs 2' "... what is missing"
like "$out" "JOB +USER +GPUS +SINCE +ENDS AT THE LATEST" "... who holds the rest"
like "$out" " $first +$(id -un) +2 +20" "... each job with its GPUs"
like "$out" " $second +$(id -un) +1 +20" "... and until when"
like "$out" '--gres=rgpu:1 +1 GPU on each node, in the place of 2' "... and what would start now"
try 20 rgpu why "$waiting" --json
is "$(field '["waits"]') $(field '["reason"]') $(field '["licences"]')" "True Licenses 200" \
    "--json says the same"
is "$(field '["enough_after"]')" "$second" "... with the job whose end gives it enough"
is "$(json_value '[h["job"] for h in j["holders"]]' <<< "$out" | tr -d "[]',")" \
    "$first $second" "... and the holders"
is "$(json_value '[a["options"] for a in j["alternatives"]]' <<< "$out")" \
    "--gres=rgpu:1" "... and what would start"
scancel "$waiting"
try 60 srun --gres=rgpu:1 true
is "$rc" 0 "that does start" || diag "$err"
submitted --gres=rgpu:2 --wrap true; waiting=$job
ok "one waits for licences again" wait_for 60 lacks

start outside rgpu run -n 1 -- sleep 600
outside=$pid
held_outside() { try 20 rgpu why "$waiting"; [[ $out =~ "outside Slurm: " ]]; }
ok "a program outside Slurm that holds one is told" wait_for 30 held_outside || diag "$out"
unlike "$out" 'the pool has enough' "... and that nothing is left is not hidden"
stop "$outside"

submitted --gres=rgpu:1 --hold --wrap true; held=$job
try 20 rgpu why "$held"
like "$rc $out" '^0 .*it is held \(JobHeldUser\); see scontrol release' "a job that is held: why"
submitted --hold --wrap true; without=$job
try 20 rgpu why "$without"
like "$rc $out" '^3 .* waits, but asked for no GPUs of the pool' "a job without GPUs"
try 20 rgpu why "$first"
like "$rc $out" "^3 job $first of .* does not wait: it is RUNNING since 20" "one that runs"
try 20 rgpu why 999999
like "$rc $err" '^1 .*rgpu: ' "a job that there is not"
try 20 rgpu why
like "$rc $err" '^2 .*job is required' "... and none at all"

scancel "$held" "$without"
touch "$T/end"
ended() { [ -z "$(squeue -h -o %i)" ] && all_free; }
ok "all have ended" wait_for 60 ended
done_testing
