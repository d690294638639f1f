#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Slurm's own options for GPUs on a cluster whose nodes have none: people are told what to write, or
# it is written for them ([slurm] gpus_mean_rgpu).
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up
rgpu slurm sync > /dev/null  # tells job_submit that no node has GPUs

says() { like "$err" "rgpu: $1" "$2"; }
none='no node of this cluster has a GPU of its own \(gres/gpu\)'

try 20 srun --gres=gpu:1 true
is $rc 1 "--gres=gpu:1 is refused"
says "--gres=gpu:1 \(--gpus-per-node=1\): $none; ask for GPUs of the pool with --gres=rgpu:1" \
    "... with what to write"
try 20 srun --gpus=2 true
says "--gpus=2: .*with --gres=rgpu:2" "--gpus=2 is answered"
try 20 srun -G1 true
says "--gpus=1: .*with --gres=rgpu:1" "-G1 is answered"
try 20 srun -N 2 -G 4 true
says "--gpus=4: .*with --gres=rgpu:2" "--gpus of several nodes is answered by node"
try 20 srun -N 2 -G 3 true
says "--gpus=3: .*by node, with --gres=rgpu:N" "... or not, where it does not come out even"
try 20 sbatch --gpus-per-node=a100:2 --wrap true
says "--gres=gpu:a100:2 \(--gpus-per-node=a100:2\): .*with --gres=rgpu:a100:2" \
    "--gpus-per-node is answered, with its type"
try 20 srun --gpus=rgpu:1 true
says "--gpus=rgpu:1: .*with --gres=rgpu:1" "--gpus=rgpu:1 is answered with what was meant"
try 20 srun --gres=rgpu:1,gpu:0 true
is "$rc $err" "0 " "--gres=gpu:0 asks for nothing, and is left alone"
try 20 srun -n 2 -N 1 --gpus-per-task=1 true
says "--gpus-per-task=1: .*with --gres=rgpu:2" "--gpus-per-task is answered"
try 20 srun --gres=rgpu:1 --cpus-per-gpu=2 true
# Later Slurms refuse it by themselves.
if slurm_is 23.02; then
    told='did not request any GPU'
else
    told="rgpu: --cpus-per-gpu: $none; ask for processors with --cpus-per-task"
fi
like "$err" "$told" "--cpus-per-gpu beside GPUs of the pool is answered"
try 20 srun --gres=gpu:1 --mem-per-gpu=1G true
says "--gres=gpu:1 .*with --gres=rgpu:1, and ask for memory of the node with --mem" \
    "--mem-per-gpu is answered"
try 20 srun --gres=rgpu:1 --gpu-bind=closest true
says "--gpu-bind: .*with --rgpu-bind" "--gpu-bind is answered"
try 20 srun true
is "$rc$err" 0 "a job that asks for no GPU is told nothing"

# --- translated

sed -i '/^\[slurm\]/a gpus_mean_rgpu = true' "$RGPU_CONF"
rgpu slurm sync > /dev/null
runs_as() # NAME WANTED OPTION...
{
    local name=$1 wanted=$2
    shift 2
    try 20 sbatch --parsable -H -o /dev/null "$@" --wrap true
    job=$out
    is "$rc $(squeue -h -j "$job" -o '%b %W')" "0 $wanted" "$name" || diag "$err"
    scancel "$job"
}
if slurm_is 23.02; then gres=gres/rgpu; else gres=gres:rgpu; fi
runs_as "gpus_mean_rgpu: sbatch --gres=gpu:1 gets one of the pool" "$gres:1 rgpu:100" --gres=gpu:1
like "$err" 'rgpu: --gres=gpu:1 .* is --gres=rgpu:1 on this cluster \(gpus_mean_rgpu\)' \
    "... and is told so"
runs_as "... sbatch --gpus=2 two" "$gres:2 rgpu:200" --gpus=2
runs_as "... sbatch -N 2 --gpus-per-task=1 one on each node" "$gres:1 rgpu:200" -N 2 \
    --gpus-per-task=1
try 20 sbatch --parsable -H --gres=gpu:2 --cpus-per-gpu=3 --mem-per-gpu=100M -o /dev/null \
    --wrap true
like "$(scontrol show job "$out")" 'NumCPUs=6 .*CPUs/Task=6|CPUs/Task=6' \
    "... processors by GPU become processors of the task"
scancel "$out"
submitted --gpus=1 -o "$T/out" --wrap \
    'echo "batch $RGPU_LEASE"; srun sh -c "echo step \$RGPU_LEASE"'
ok "... a script that asks so runs" wait_for 60 is_state "$job" COMPLETED
like "$(cat "$T/out")" "batch $cluster/run/cn[12]/$job/lease.json" "... with its GPU"
like "$(cat "$T/out")" "step $cluster/run/cn[12]/$job/lease.json" "... and its steps, too"
try 20 srun --gres=gpu:1 true
says "--gres=gpu:1 .*with --gres=rgpu:1" "srun, whose step would ask again, is told what to write"
done_testing
