#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A job's leases on its node: the lease file, its rights, and the environment of the job's tasks.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up
unset RGPU_LEASE LD_LIBRARY_PATH

program='echo "$RGPU_LEASE $LD_LIBRARY_PATH"; stat -c %a.%u "$RGPU_LEASE" "${RGPU_LEASE%/*}"; cat '
program+='"$RGPU_LEASE"'
try 20 srun --gres=rgpu:2 sh -c "$program"
is $rc 0 "a job with two GPUs runs"
like "$out" "$cluster/run/cn[12]/[0-9]+/lease.json $interpose" \
    "its tasks know the lease file, and find our libcuda.so.1 first"
like "$out" '400\.0' "only its user may read the file"
like "$out" '755\.0' "its folder is root's"
is "$(grep -c '"uuid": "GPU-' <<< "$out")" 2 "it names both GPUs"
like "$out" '"secret": "[0-9a-f]{64}"' "and holds the secret"
try 20 srun --gres=rgpu:1 sh -c \
    'env | grep -F "$(sed -n "s/.*\"secret\": \"\(.*\)\".*/\1/p" "$RGPU_LEASE")"'
is "$rc$out" 1 "which is in no environment"
program='echo "$RGPU_GPUS $SLURM_GPUS_ON_NODE $RGPU_SERVERS"; echo "$RGPU_GPU_UUIDS" | tr , "\n"'
try 20 env RGPU_GPUS=7 SLURM_GPUS_ON_NODE=7 RGPU_SERVERS=old srun --gres=rgpu:2 sh -c "$program"
like "$out" '^2 2 (gpu[12]|gpu1,gpu2)
GPU-[0-9a-f-]+
GPU-[0-9a-f-]+$' "variables say how many GPUs it has, which, and of which servers"
wait_for 10 all_free
ok "the file goes with the job" [ -z "$(find "$cluster/run" -name lease.json)" ]

program='echo "batch $RGPU_LEASE"; srun sh -c "echo step \$RGPU_LEASE; echo \$LD_LIBRARY_PATH"; '
program+='echo "$LD_LIBRARY_PATH"'
submitted --gres=rgpu:1 -o "$T/batch" --wrap "$program"
wait_for 20 is_state "$job" COMPLETED
like "$(cat "$T/batch")" "batch $cluster/run/cn[12]/$job/lease.json" "a batch script knows it"
like "$(cat "$T/batch")" "step $cluster/run/cn[12]/$job/lease.json" "and so do its steps"
is "$(grep -cF "$interpose" "$T/batch")" "$(grep -oF "$interpose" "$T/batch" | wc -l)" \
    "the library path does not grow in them"

try 20 srun sh -c 'echo "lease=$RGPU_LEASE path=$LD_LIBRARY_PATH"'
is "$out" "lease= path=" "a job without GPUs has nothing of it"

try 20 env LD_LIBRARY_PATH=/opt/mine srun --gres=rgpu:1 sh -c 'echo "$LD_LIBRARY_PATH"'
like "$out" "^$interpose.*:/opt/mine$" "the user's own library path stays, behind ours"

# Another user: nobody, who may write nowhere but in /tmp.
as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
chmod 755 "$T" "$cluster"
if as_nobody test -x "$build/bin/rgpu"; then
    submitted --gres=rgpu:1 --wrap 'sleep 300'
    wait_for 20 is_state "$job" RUNNING
    has_lease() { file=$(find "$cluster/run" -path "*/$job/lease.json"); [ -s "$file" ]; }
    ok "the lease of a running job is there" wait_for 10 has_lease
    not_ok "another user cannot read it" as_nobody cat "$file"
    try 20 as_nobody true
    try 20 setpriv --reuid=65534 --regid=65534 --clear-groups srun --chdir=/tmp --gres=rgpu:1 sh \
        -c 'stat -c %U.%a "$RGPU_LEASE"; cat "$RGPU_LEASE"'
    is $rc 0 "another user's job runs, too"
    like "$out" '^nobody\.400' "and owns its own lease file"
    end_jobs
else
    skip "user nobody cannot reach $build" 4
fi

# The watcher of slurmstepd ends with it.
try 20 srun --gres=rgpu:1 sh -c 'pgrep -f "rgpu-watch .*/$SLURM_JOB_ID/lease.json"'
watcher=$(head -n 1 <<< "$out")
ok "a watcher waited for the end of slurmstepd" [ -n "$watcher" ]
ok "it is gone with it" wait_for 5 tap_gone "${watcher:-1}"

# No server: the job fails with a reason, and no node is drained.
for name in gpu1 gpu2; do kill "$(cat "$cluster/pid/rgpud.$name")"; done
gone() { ! rgpu list; }
wait_for 5 gone
submitted --gres=rgpu:1 --no-requeue --wrap true
comment() { scontrol show job "$job" | sed -n 's/^ *AdminComment=//p'; }
says() { [[ $(comment) =~ $1 ]] || { comment; return 1; }; }
ok "without any server the job's comment says for what it waits" wait_for 30 says \
    '^rgpu: waits for 1 GPU since [-0-9T:]+: .*gpu1.*cannot connect'
ok "... and, when the prolog gives up, why" wait_for 30 says \
    '^rgpu: no server of the pool answers: .*gpu1'
scancel "$job"
started=$SECONDS
try 40 srun --gres=rgpu:1 true
is $rc 1 "srun ends"
ok "and does not hang" [ $((SECONDS - started)) -lt 30 ]
idle() { [ "$(sinfo -h -N -o %T | sort -u)" = idle ]; }
ok "no node is drained" wait_for 20 idle
done_testing
