#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every way to ask for GPUs in Slurm; after each, what leases hold stands beside the licences in
# use.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up --types h100,a100 --local-gpu
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"

# A script that runs until its file is there.
# holds HUNDREDTHS NAME: the job's leases, and its licences, become so many.
both_are() { [ "$(held) $(sold)" = "$1 $1" ] ||
    { echo "leases hold $(held), licences in use $(sold)"; return 1; }; }
holds() { ok "$2: leases and licences are $1" wait_for 30 both_are "$1"; }
# The servers whose GPUs a job holds.
servers_of()
{
    rgpu list --json | json_value 'sorted({s["name"] for s in j["servers"] for l in s["leases"]
        if l["owner"].get("job") == a[0]})' "$1"
}
wanted_of() { scontrol show job "$job" | sed -n 's/^ *TresPerNode=//p'; }
uuids='grep -c \"uuid\" $RGPU_LEASE'
# What srun's options give, as many GPUs as the task sees in its lease.
asks()
{
    local name=$1 wanted=$2
    shift 2
    try 30 srun "$@" sh -c "$uuids"
    is "$rc:$(sort -u <<< "$out" | xargs)" "0:$wanted" "$name" || diag "$err"
}

# Slurm lets a requeued job wait two minutes, unless it is told otherwise. One that starts in the
# second in which its last run ended is killed: slurmd takes its credential for the one that was
# revoked.
begins_now()
{
    squeue -h -j "$job" -o %t | grep -qx PD && scontrol update job="$job" starttime=now+2
}

# --- at once

asks "--gres=rgpu is one GPU" 1 --gres=rgpu
asks "--gres=rgpu:2 is two" 2 --gres=rgpu:2
try 30 env SLURM_GRES=rgpu:2 srun sh -c "$uuids"
is "$rc:$out" 0:2 "SLURM_GRES=rgpu:2 too" || diag "$err"
asks "two on each of two nodes" 2 -N 2 --gres=rgpu:2
asks "--exclusive takes the node, and of the pool what was asked for" 2 --exclusive --gres=rgpu:2
holds 0 "nothing runs"

# --- kinds of GPUs

submitted --gres=rgpu:a100:2 --wrap "$(until_file "$T/a100")"; a100=$job
holds 200 "--gres=rgpu:a100:2"
is "$(servers_of "$a100")" gpu2 "the server with that type"
submitted --gres=rgpu:h100 --wrap "$(until_file "$T/a100")"
holds 300 "--gres=rgpu:h100"
is "$(servers_of "$job")" gpu1 "the other server has the other type"
touch "$T/a100"
try 20 srun --gres=rgpu:b200:1 true
sentence='1 GPU of type b200 on one node was asked for, but no server has any \(gpu1 2 rgpu '
sentence+='software GPU h100, gpu2 2 rgpu software GPU a100\)'
like "$err" "$sentence" \
    "a type that no server has is refused, with those that there are"
try 20 srun --gres=rgpu:h100:1,rgpu:a100:1 true
like "$err" 'one type of GPU' "two types in one job are refused"
holds 0 "the typed jobs have ended"
for filter in --rgpu-server=gpu2 --rgpu-name=a100 --rgpu-server=gpu2,gpu3x; do
    try 20 srun --gres=rgpu:1 "$filter" sh -c 'grep -oE "\"name\": \"gpu[12]\"" "$RGPU_LEASE"'
    case $filter in
    *gpu3x) like "$err" '--rgpu-server=gpu3x: the pool has no such server' "$filter: refused" ;;
    *) is "$out" '"name": "gpu2"' "$filter: a GPU of that server" || diag "$err" ;;
    esac
done
uuid=$(rgpu list --json | json_value 'j["servers"][1]["gpus"][1]["uuid"]')
try 20 srun --gres=rgpu:1 --rgpu-uuid="$uuid" sh -c 'cat "$RGPU_LEASE"'
like "$out" "$uuid" "--rgpu-uuid: that GPU" || diag "$err"
try 20 srun --gres=rgpu:1 --rgpu-min-cc=8.0 --rgpu-min-cuda=12.0 --rgpu-min-driver=570.86.10 \
    --rgpu-min-memory=1G true
is $rc 0 "--rgpu-min-cc, --rgpu-min-cuda, --rgpu-min-driver, --rgpu-min-memory that all pass" ||
    diag "$err"
for filter in --rgpu-min-cc=9.9 --rgpu-min-cuda=90.0 --rgpu-min-driver=900 --rgpu-min-memory=64G \
    --rgpu-name=v100; do
    try 20 srun --gres=rgpu:1 "$filter" true
    like "$rc $err" '^1 .*of this kind \(.*\) on one node was asked for, but no server has any' \
        "$filter: refused, as no GPU is so"
done
try 20 srun --gres=rgpu:1 --rgpu-min-cc=nine true
like "$err" '--rgpu-min-cc: "nine" is no version: write it like 8.0' \
    "a wrong value is told where it is typed"
try 20 srun --rgpu-name=h100 true
like "$rc $err" '^0 .*without --gres=rgpu:N there is none' "a filter without GPUs is remarked on"

# --- with a node's own GPU

try 20 srun --gres=gpu:1,rgpu:2 sh -c "echo local \$SLURM_STEP_GPUS; $uuids"
is "$rc:$(xargs <<< "$out")" "0:local 0 2" \
    "--gres=gpu:1,rgpu:2: one GPU of the node and two of the pool" || diag "$err"
submitted --gres=gpu:1,rgpu:1 --wrap "$(until_file "$T/local")"
holds 100 "a local GPU costs no licence"
touch "$T/local"

# --- batch

printf '#!/bin/sh\n#SBATCH --gres=rgpu:2\n%s\n' "$(until_file "$T/batch")" > "$T/script"
submitted "$T/script"
holds 200 "#SBATCH --gres=rgpu:2"
touch "$T/batch"
holds 0 "it has ended"
rm "$T/batch"
SBATCH_GRES=rgpu:1 submitted --wrap "$(until_file "$T/batch")"
holds 100 "SBATCH_GRES=rgpu:1"
touch "$T/batch"
holds 0 "it has ended, too"

# --- salloc, and steps

try 40 salloc --gres=rgpu:2 sh -c \
    "srun sh -c '$uuids'; srun sh -c '$uuids'; srun --gres=rgpu:1 --exact -n1 true && echo one;
    scontrol -o show lic | sed -n 's/^LicenseName=rgpu .*\(Used=[0-9]*\).*/\1/p'
    rgpu leases | grep -c 'job '"
is "$(xargs <<< "$out")" "2 2 one Used=200 1" \
    "salloc, then three steps: one lease of two GPUs for all" || diag "$err"
holds 0 "salloc has ended"

# --- arrays

submitted -a 1-3 --gres=rgpu:1 --wrap "$(until_file "$T/array")"
holds 300 "an array of three tasks"
touch "$T/array"

# --- several nodes, and ranges of nodes

submitted -N 2 --gres=rgpu:2 --wrap "$(until_file "$T/nodes")"
holds 400 "-N 2 --gres=rgpu:2"
touch "$T/nodes"
holds 0 "it has ended"
idle() { [ "$(sinfo -h -N -o %T | sort -u)" = idle ] || { sinfo -N; return 1; }; }
wait_for 20 idle
submitted -N 1-2 --gres=rgpu:2 --wrap "$(until_file "$T/range.1")"
holds 400 "-N 1-2 where both nodes are free"
touch "$T/range.1"
holds 0 "it has ended"
wait_for 20 idle
submitted -w cn2 --exclusive --wrap "$(until_file "$T/busy")"; busy=$job
wait_for 20 is_state "$busy" RUNNING
submitted -H -N 1-2 --gres=rgpu:1 --wrap "$(until_file "$T/range.2")"; range=$job
is "$(squeue -h -j "$range" -o %W)" rgpu:200 "-N 1-2 pays for two nodes while it waits"
not_ok "its licences are not the user's to change" scontrol update job="$range" licenses=rgpu:50
not_ok "nor its GPUs, without a number of nodes" scontrol update job="$range" gres=rgpu:2
scontrol release "$range"
holds 100 "-N 1-2 where one node is free"
like "$(squeue -h -j "$range" -o '%W %D')" '^rgpu:100,rgpu_[ah]100:100 1$' \
    "its licences follow the nodes, and the type that it got"
touch "$T/busy"
wait_for 20 is_state "$busy" COMPLETED
scontrol requeuehold "$range"
holds 0 "requeued and held"
held_again() { [ "$(squeue -h -j "$range" -o '%W %t %r')" = \
    "rgpu:200 PD job requeued in held state" ] || { squeue -h -j "$range" -o '%W %t %r'; \
    return 1; }; }
ok "it pays for two nodes again" wait_for 20 held_again
job=$range wait_for 20 begins_now
wait_for 20 idle
scontrol release "$range"
holds 200 "and runs on two nodes now"
touch "$T/range.2"
try 20 srun -N 1-50 --gres=rgpu:1 sh -c 'echo "$SLURM_JOB_NUM_NODES"'
is "$rc:$(sort -u <<< "$out")" 0:2 "a range beyond the pool is cut to what there is" || diag "$err"
holds 0 "ranges have ended"

# --- heterogeneous jobs

if slurm_is 23.02; then
    try 30 srun --gres=rgpu:h100:1 true : --gres=rgpu:a100:2 true
    like "$rc $err" '^[1-9].*first part of a heterogeneous job' \
        "GPUs of the second part of a heterogeneous job are refused, as Slurm has it"
    try 30 srun --gres=rgpu:a100:2 sh -c "$uuids" : sh -c \
        'echo "part $SLURM_PROCID ${RGPU_LEASE-no lease}"'
    is "$rc:$(sort <<< "$out" | xargs)" "0:2 part 1 no lease" "those of the first are its own" ||
        diag "$err"
else
    sbatch --parsable -o /dev/null --gres=rgpu:h100:1 : --gres=rgpu:a100:2 --wrap \
        "$(until_file "$T/het")" > "$T/het.id"
    het=$(cut -d';' -f1 "$T/het.id")
    holds 300 "a heterogeneous job of one h100 and two a100"
    is "$(servers_of "$het") $(servers_of $((het + 1)))" "gpu1 gpu2" "each part has its type"
    touch "$T/het"
    try 30 srun --gres=rgpu:h100:1 sh -c "$uuids" : --gres=rgpu:a100:2 sh -c "$uuids"
    is "$rc:$(sort <<< "$out" | xargs)" "0:1 2" \
        "srun ... : ...: the tasks of each part see its GPUs" || diag "$err"
fi
holds 0 "the heterogeneous jobs have ended"

# --- changed while it waits

submitted -H --gres=rgpu:a100:2 --wrap "$(until_file "$T/update")"
not_ok "the type of a pending job cannot be changed" scontrol update job="$job" gres=rgpu:h100:2
ok "its number can" scontrol update job="$job" gres=rgpu:a100:1
scontrol release "$job"
holds 100 "one GPU less"
is "$(servers_of "$job")" gpu2 "of the same type"

# --- again from the start

restarted() { [ \
    "$(scontrol show job "$job" | sed -n 's/.*Restarts=\([0-9]*\) .*/\1/p') $(job_state "$job")" = \
    "$1 RUNNING" ] || { scontrol show job "$job"; return 1; }; }
scontrol requeue "$job"
ok "requeued, it waits" wait_for 20 begins_now
ok "and runs again" wait_for 40 restarted 1
holds 100 "with a lease of its own"
scontrol requeuehold "$job"
holds 0 "requeuehold gives the GPUs back"
wait_for 20 begins_now
scontrol release "$job"
ok "released, it runs a third time" wait_for 40 restarted 2
holds 100 "and holds its GPU"

# --- after another

first=$job
submitted --dependency=afterany:"$first" --gres=rgpu:2 --wrap "$(until_file "$T/after")"
depends() { [ "$(job_reason "$job")" = Dependency ]; }
ok "--dependency: it waits" wait_for 20 depends
holds 100 "and holds nothing"
touch "$T/update"
holds 200 "then it has its GPUs"
touch "$T/after"

# --- a signal before the end

submitted --gres=rgpu:1 -o "$T/signal" --wrap \
    'trap "echo signalled; exit 0" USR1; echo ready; while :; do sleep 0.1; done'
ready() { grep -q ready "$T/signal"; }
wait_for 20 ready
scancel --batch --signal=USR1 "$job"
ok "a signal reaches a job with GPUs" wait_for 20 is_state "$job" COMPLETED
is "$(tail -n 1 "$T/signal")" signalled "and its handler runs"
holds 0 "in the end nothing is held"
ok "and all is free" wait_for 20 all_free
done_testing
