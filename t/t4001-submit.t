#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# job_submit and the options: what is refused, with which sentence, and what a job's licences are.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up

licences() { squeue -h -j "$job" -o %W; }

try 20 srun --help
like "$out" '--rgpu-share=PCT' "srun --help lists --rgpu-share"
like "$out" '--rgpu-mem=SIZE' "srun --help lists --rgpu-mem"
for filter in server name uuid min-memory min-cc min-cuda min-driver; do
    like "$out" "--rgpu-$filter=" "srun --help lists --rgpu-$filter"
done

try 20 srun --gres=rgpu:9 true
is $rc 1 "nine GPUs on one node are refused"
like "$err" \
    'rgpu: 9 GPUs on one node were asked for, but no server has more than 2 \(gpu1 2, gpu2 2\)' \
    "the sentence says why"
like "$err" 'ask for at most 2' "and what would do"
try 20 sbatch --gres=rgpu:9 --wrap true
like "$err" 'no server has more than 2' "sbatch says the same"
try 20 srun --gres=rgpu:2 -N 5 true
like "$err" 'room for 2 such nodes' "more nodes than the pool can serve are refused"
try 20 srun --gres=rgpu:1 --rgpu-mem=1000G true
like "$err" '1000 GiB of memory .* no server .* has more than' \
    "more memory than any GPU has is refused"
try 20 srun --gres=rgpu:2 -N 3-5 true
like "$err" 'room for 2 such nodes' "nor is a range that begins with more"
try 20 srun --gres=rgpu:a100:1 true
like "$err" '1 GPU of type a100 on one node was asked for, but no server has any' \
    "a type that the pool does not have is refused"
try 20 srun --licenses=rgpu:100 true
like "$err" 'licences of rgpu alone give no GPU' "licences without GPUs are refused"
try 20 srun --gres=rgpu:1 --rgpu-share=0 true
like "$err" '--rgpu-share=0: give a percentage of a GPU from 1 to 100' \
    "a wrong share is told where it is typed"
try 20 srun --gres=rgpu:1 --rgpu-mem=8 true
like "$err" '--rgpu-mem=8: the unit is missing' "memory without unit is refused"
try 20 srun --rgpu-share=50 true
like "$err" 'without --gres=rgpu:N there is none' "a share without GPUs is remarked on"
is $rc 0 "but the job runs"

submitted -H --gres=rgpu:2 --wrap true
is "$(licences)" rgpu:200 "two GPUs are 200 licences"
submitted -H -N 2 --gres=rgpu:1 --wrap true
is "$(licences)" rgpu:200 "one GPU on each of two nodes too"
submitted -H --gres=rgpu:1 --rgpu-share=30-100 --wrap true
is "$(licences)" rgpu:30 "of a share the least is sold"
submitted -H --gres=rgpu:2 --licenses=rgpu:1 --wrap true
is "$(licences)" rgpu:200 "a forged count is replaced"
submitted -H -a 1-3 --gres=rgpu:1 --wrap true
is "$(squeue -h -j "$job" -o %W | sort -u)" rgpu:100 "each task of an array has its own"
submitted -H --wrap true
is "$(licences)" "(null)" "a job without GPUs has none"

submitted -H --gres=rgpu:2 --wrap true
not_ok "an update cannot lower the licences" scontrol update job="$job" licenses=rgpu:100
is "$(licences)" rgpu:200 "they are as before"
like "$(cat "$cluster/log/slurmctld")" "update refused: the job's GPUs need licences rgpu:200" \
    "the log says why"
scontrol update job="$job" licenses=
is "$(licences)" rgpu:200 "an update cannot drop them"
ok "fewer GPUs are granted to a pending job" scontrol update job="$job" gres=rgpu:1
is "$(licences)" rgpu:100 "with fewer licences"
not_ok "more than any server has are refused" scontrol update job="$job" gres=rgpu:9
is "$(licences)" rgpu:100 "and change nothing"
not_ok "another number of nodes is refused" scontrol update job="$job" numnodes=2
ok "other updates pass" scontrol update job="$job" timelimit=5
submitted -H --wrap true
not_ok "a job gains no GPUs after it was submitted" scontrol update job="$job" gres=rgpu:1
not_ok "nor licences of rgpu" scontrol update job="$job" licenses=rgpu:100
scancel -u "$(id -un)"

submitted --gres=rgpu:2 --wrap 'sleep 300'
wait_for 20 is_state "$job" RUNNING
ok "root may change the licences of a running job, as rgpu resize does" \
    scontrol update job="$job" licenses=rgpu:100
rgpu slurm sync > "$T/sync"
is "$(licences)" rgpu:200 "... and rgpu slurm sync makes them those of its leases again"
scontrol update job="$job" licenses=
is "$(licences)" rgpu:200 "... but they cannot be dropped"
not_ok "nor its GPUs changed" scontrol update job="$job" gres=rgpu:1
ok "they are free when it has ended" end_jobs

rm "$cluster/run/pool.snapshot"
submitted -H --gres=rgpu:1 --rgpu-mem=1000G --wrap true
ok "without a snapshot nothing is refused for its size" [ -n "$job" ]
like "$(cat "$cluster/log/slurmctld")" 'not checked against the size of the pool: .*pool.snapshot' \
    "and slurmctld's log says so"
rgpu slurm sync > "$T/sync"
like "$(cat "$T/sync")" '2 servers, [0-9]+ GPUs; slurm.conf needs Licenses=rgpu:' \
    "rgpu slurm sync writes it, and tells the licences"
try 20 srun --gres=rgpu:9 true
like "$err" 'no server has more than' "then it is refused again"
done_testing
