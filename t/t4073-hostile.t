#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a user may write into a job says nothing in Slurm's or an administrator's name, and hinders
# nobody: names and comments of jobs, variables of the environment, values of options.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up
unset LD_LIBRARY_PATH RGPU_LEASE
[ -x "$build/cuda/vector_add-static" ] || skip_all "vector_add is not built; run make cuda"
rgpu slurm sync > /dev/null
gpu=$(first_gpu)

# scontrol's text is what the user has forged.
is_state() { [ "$(squeue -h -a -t all -j "$1" -o %T)" = "$2" ] || { squeue -a -t all; return 1; }; }

# --- lines that look like Slurm's, in a job's name and comment

forged=$'x\n   AdminComment=an administrator says that it is paid'
forged+=$'\n   JobState=RUNNING Reason=None\n   Requeue=0 Restarts=7 BatchFlag=0'
forged+=$'\n   StartTime=now EndTime=Unknown %s%n\nJobId=1 JobName=y'
submitted --gres=rgpu:1 --rgpu-uuid="$gpu" --wrap "$(until_file "$T/end1")"; has=$job
ok "a job has a GPU" wait_for 30 is_state "$has" RUNNING
submitted --gres=rgpu:1 --rgpu-uuid="$gpu" -J "$forged" --comment "$forged" --wrap true; wants=$job
note_is() { squeue -h -a -t all -j "$1" -O 'admin_comment: ' | grep -E "^$2" > "$T/note" ||
    { squeue -h -a -t all -j "$1" -O 'admin_comment: '; return 1; }; }
ok "one with a forged name and comment waits for it" wait_for 30 note_is "$wants" \
    'rgpu: waits for 1 GPU'
unlike "$(cat "$T/note")" administrator "... and its AdminComment has no word of the user's"
touch "$T/end1"
ok "... runs" wait_for 60 is_state "$wants" COMPLETED
ok "... and everything is given back" wait_for 20 all_free

mv "$cluster/run/pool.snapshot" "$T/snapshot"
submitted --gres=rgpu:1 --rgpu-uuid=GPU-none -J "$forged" --comment "$forged" --wrap true
held() { [[ "$(squeue -h -j "$job" -o '%T %r')" =~ ^PENDING.*held ]]; }
ok "one that can never be served is held, though it calls itself no batch job" wait_for 60 held
ok "... with the reason" note_is "$job" "rgpu: no server can ever give this.*scontrol release $job"
scancel "$job"
mv "$T/snapshot" "$cluster/run/pool.snapshot"

# --- variables

hostile=(env RGPU_NODES=7 RGPU_EACH=1 RGPU_TYPE=a100 RGPU_TYPES=a100 RGPU_SALLOC=1
    RGPU_LEASE=/etc/shadow SLURMD_NODENAME=../../../etc)
export_lease='echo "nodes $RGPU_NODES lease $RGPU_LEASE"'
job=$("${hostile[@]}" sbatch --parsable -w cn1 --gres=rgpu:1 -o "$T/out" \
    --wrap "$export_lease; exec $build/cuda/vector_add-static")
ok "a script with our variables in its environment runs" wait_for 60 is_state "$job" COMPLETED
like "$(head -n 1 "$T/out")" "^nodes  lease $cluster/run/cn1/$job/lease.json" \
    "... with its own lease"
job=$("${hostile[@]}" sbatch --parsable -w cn1 -o "$T/out" --wrap "$export_lease")
ok "so does one without GPUs" wait_for 30 is_state "$job" COMPLETED
like "$(cat "$T/out")" '^nodes ' "... at once, as no Prolog of it is waited for"
try 60 "${hostile[@]}" srun -w cn1 --gres=rgpu:1 "$build/cuda/vector_add-static"
like "$rc $out" '^0 .*right: all' "and a program of srun's"

# --- values of options

for value in $'a\nb' $'\e[31mred'; do
    for option in name server uuid; do
        try 20 srun --gres=rgpu:1 --rgpu-$option="$value" true
        like "$rc $err" "^255 .*--rgpu-$option: it has a line break or another control character" \
            "--rgpu-$option takes no control characters"
    done
done
long=$(head -c 100000 /dev/zero | tr '\0' x)
try 20 srun --gres=rgpu:1 --rgpu-uuid="$gpu,$long" true
like "$rc $err" '^255 .*--rgpu-uuid: it has [0-9]* characters; 4096 are the most' \
    "a value of any length is refused at submit, not in each prolog"
for value in $'\xff\xfe' '%s%n' '"}' '../../etc' '$(id)'; do
    try 20 srun --gres=rgpu:1 --rgpu-server="$value" true
    is "$rc" 1 "--rgpu-server=$(printf %q "$value") is refused" || diag "$out $err"
done
try 20 srun --gres=rgpu:1 --rgpu-name=H200 --rgpu-min-memory=40G --rgpu-min-cc=9.0 true
like "$err" '1 GPU of this kind \(--rgpu-name=H200 --rgpu-min-memory=40G --rgpu-min-cc=9.0\)' \
    "what no server has is named as it was asked for"

# --- updates

submitted -H --gres=rgpu:1 --wrap true
for gres in rgpu:0 none ''; do
    try 20 scontrol update jobid="$job" gres=$gres
    is "$rc" 1 "scontrol update gres=$gres cannot take a job's GPUs away"
done
like "$(cat "$cluster/log/slurmctld")" \
    'update refused: the job was submitted with GPUs .*submit it again' \
    "... and slurmctld's log says why"
scontrol release "$job"
ok "... and it runs as it was submitted" wait_for 60 is_state "$job" COMPLETED

ok "nothing is left" wait_for 20 all_free
try 20 rgpu slurm check
is "$rc" 0 "Slurm and the pool agree" || diag "$out"
done_testing
