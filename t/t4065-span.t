#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Jobs with GPUs of several servers on one node (--rgpu-span): submit, leases, lease file, binding,
# leftovers, a server that dies.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"
. "$(dirname "$0")/lib/lost.sh"
unset RGPU_LEASE LD_LIBRARY_PATH CUDA_VISIBLE_DEVICES
check() { rgpu slurm check > "$T/check" 2>&1 || { cat "$T/check"; false; }; }
parts() { python3 "$py/lease_parts.py" "$cluster/run/cn1/$1/lease.json"; }

# --- submit

try 20 srun --help
like "$out" '--rgpu-span ' "srun --help lists --rgpu-span, which has no value"
try 20 srun --gres=rgpu:3 true
sentence='^1 .*no server has more than 2 .*ask for at most 2, or for more nodes, or for GPUs of '
sentence+='several servers \(--rgpu-span\)'
like "$rc $err" "$sentence" \
    "three GPUs without it are refused, and it is named"
try 20 srun --gres=rgpu:5 --rgpu-span true
like "$rc $err" '^1 .*5 GPUs on one node were asked for, but the whole pool has 4 ' \
    "with it more than the whole pool has are refused"
try 20 srun -N 2 --gres=rgpu:3 --rgpu-span true
like "$rc $err" '^1 .*room for 1 such nodes' "... and more nodes"
try 20 srun --rgpu-span true
like "$rc $err" '^0 .*without --gres=rgpu:N there is none' "... alone it is remarked on"

submitted -H --gres=rgpu:2 --rgpu-span --wrap true
try 20 scontrol update job="$job" gres=rgpu:4
is "$rc $(squeue -h -j "$job" -o %W)" "0 rgpu:400" \
    "a pending job may ask for more than one server has" || diag "$err"
try 20 scontrol update job="$job" gres=rgpu:5
is "$rc $(squeue -h -j "$job" -o %W)" "1 rgpu:400" "... and not for more than the pool has"
scancel "$job"

# --- which GPUs

try 60 srun --gres=rgpu:3 --rgpu-span sh -c 'python3 "$0"; stat -c %a.%u "$RGPU_LEASE"' \
    "$py/lease_parts.py"
like "$rc $(xargs <<< "$out")" '^0 gpu1:[12] gpu2:[12] 400\.0$' \
    "three GPUs of two servers in one lease file" || diag "$err"
try 60 srun --gres=rgpu:2 --rgpu-span python3 "$py/lease_parts.py"
like "$rc $out" '^0 gpu[12]:2$' "two of one server, which has them" || diag "$err"
try 60 srun -N 2 --gres=rgpu:3 --rgpu-share=50 --rgpu-span python3 "$py/lease_parts.py"
is "$rc $(grep -cE '^gpu1:[12] gpu2:[12]$' <<< "$out")" "0 2" "on two nodes halves of three each" ||
    diag "$err"
try 60 srun -n 3 --gres=rgpu:3 --rgpu-span --rgpu-bind=single:1 sh -c 'echo "$CUDA_VISIBLE_DEVICES"'
is "$rc $(sort <<< "$out" | xargs)" "0 0 1 2" "--rgpu-bind counts them over all servers" ||
    diag "$err"
ok "all are given back" wait_for 20 all_free

# --- what a program sees

see() { try 60 srun "$@" python3 "$py/span_gpus.py"; seen=$(sort <<< "$out" | xargs); }
see --gres=rgpu:3 --rgpu-span
is "$rc:$seen" "0:0:0,1,2" "a program sees the GPUs of both servers as one list" || diag "$err"
see -n 3 --gres=rgpu:3 --rgpu-span --rgpu-bind=single:1
is "$rc:$seen" "0:0:0 1:1 2:2" "--rgpu-bind=single:1: each task one of them" || diag "$err"
see -n 2 --gres=rgpu:3 --rgpu-span --rgpu-bind=map:2,0
is "$rc:$seen" "0:0:2 1:0" "--rgpu-bind=map: by their places" || diag "$err"
see -n 1 --gres=rgpu:3 --rgpu-span --rgpus-per-step=3
is "$rc:$seen" "0:0:0,1,2" "--rgpus-per-step counts all" || diag "$err"
for case in devices copies; do
    try 120 srun --gres=rgpu:4 --rgpu-span "$build/cuda/span-static" "$case"
    is "$rc" 0 "one program on four GPUs of two servers: $case" || diag "$out$err"
done
ok "all are given back" wait_for 20 all_free

# --- a job of its own life

submitted -w cn1 --gres=rgpu:4 --rgpu-span --wrap "$(until_file "$T/end")"
wait_for 30 is_state "$job" RUNNING
wait_for 30 test -s "$cluster/run/cn1/$job/lease.json"
is "$(parts "$job")" "gpu1:2 gpu2:2" "a batch job has the whole pool"
is "$(held) $(sold)" "400 400" "leases and licences are the same"
ok "rgpu slurm check: all agree" check
like "$(cat "$T/check")" "1 job with GPUs of the pool, 2 leases: all agree" \
    "... with two leases of one job on one node"
submitted --gres=rgpu:1 --wrap true; next=$job
waits() { [ "$(job_state "$next") $(job_reason "$next")" = "PENDING Licenses" ]; }
ok "another job waits for licences" wait_for 30 waits
touch "$T/end"
ok "... and runs when it has ended" wait_for 60 is_state "$next" COMPLETED
submitted -w cn1 --gres=rgpu:3 --rgpu-span --wrap 'sleep 300'
wait_for 30 is_state "$job" RUNNING
scancel "$job"
ok "scancel: both servers have their GPUs back" wait_for 60 all_free

# --- leftovers: leases of a prolog with which its slurmctld died

submitted -w cn1 --gres=rgpu:3 --rgpu-share=30 --rgpu-span --wrap 'sleep 300'
# RUNNING comes before the prologs' end. Slurm may look at the queue half a minute later.
ok "a job with a share of three" wait_for 90 test -s "$cluster/run/cn1/$job/lease.json"
prolog_env=(SLURM_JOB_ID="$job" SLURM_JOB_UID=0 SLURM_JOB_USER=root SLURM_JOB_NODELIST=cn1 \
    SLURM_JOB_NUM_NODES=1 SLURM_JOB_LICENSES=rgpu:90
    SLURMD_NODENAME=cn1 SPANK_RGPU_NODES=1 SPANK__SLURM_SPANK_OPTION_rgpu_rgpu_share=30 \
        SPANK__SLURM_SPANK_OPTION_rgpu_rgpu_span=)
leases()
{
    rgpu leases --json |
        json_value 'len([l for l in j["leases"] if l["owner"].get("job") == a[0]])' "$job"
}
in_file()
{
    grep -oE '"lease": "[0-9a-f]+"' "$cluster/run/cn1/$job/lease.json" | grep -oE '[0-9a-f]{32}'
}
ok "its prolog is run once more" env "${prolog_env[@]}" rgpu slurm prolog
is "$(leases)" 4 "... and takes as many again"
ok "the node's prolog" env -u SLURM_JOB_LICENSES "${prolog_env[@]}" rgpu slurm node-prolog
is "$(leases) $(parts "$job" | tr ' ' '\n' | grep -cE '^gpu[12]:[12]$')" "2 2" \
    "... keeps those of one request, and gives the others back"
ok "all agree" check
ok "once more" env "${prolog_env[@]}" rgpu slurm prolog
known=$(in_file | head -n 1)
span=$(rgpu leases --json |
    json_value 'next(l["span"]["id"] for l in j["leases"] if l["id"] == a[0])' "$known")
for lease in $(rgpu leases --json |
    json_value '[l["id"] for l in j["leases"] if l["span"]["id"] != a[0]][:1]' "$span"); do
    ok "a part of the second is lost" rgpu release "$lease"
done
is "$(leases)" 3 "... three are left"
ok "the node's prolog" env "${prolog_env[@]}" rgpu slurm node-prolog
is "$(leases) $(in_file | grep -c "$known")" "2 1" "... goes on with the one that is whole"
ok "a part of that is lost, too" rgpu release "$known"
try 30 env "${prolog_env[@]}" rgpu slurm node-prolog
is "$(cat "$cluster/run/cn1/$job/error")" \
    "job $job lost a part of its GPUs on node cn1" \
    "then the job's tasks are refused, and why"
scancel "$job"
ok "the rest is given back" wait_for 60 all_free

# --- one of the servers dies

configure 'lost_after = "1s"'
submitted -w cn1 --gres=rgpu:3 --rgpu-span --wrap "exec python3 $py/span_gpus.py $T/works"; one=$job
ok "a batch job's program has contexts on both servers" wait_for 60 test -e "$T/works"
crash rgpud.gpu2
env SLURM_JOB_ID="$one" SLURM_JOB_UID=0 SLURMD_NODENAME=cn1 SPANK_RGPU_NODES=1 rgpu slurm \
    node-prolog 2> "$T/away"
like "$(cat "$cluster/run/cn1/$one/error")" '^server gpu2 .*onnect' \
    "a node's prolog that does not reach one of them does not go on with the other"
for pid in $(workers); do
    tr '\0' '\n' < "/proc/$pid/environ" | grep -qx RGPU_WORKER_SERVER=gpu2 && kill -9 "$pid"
done
ok "one of them dies: the job fails, and is requeued" wait_for 90 is_requeued "$one"
ok "... says why" wait_for 20 has_note "$one"
like "$(note_of "$one")" "^rgpu: lost server gpu2 .*: requeued; avoids gpu2 until" \
    "... and avoids that server"
is "$(rgpu list | grep -c '^gpu1 .*100%')" 2 "... the other has its GPUs back"
try 60 srun --gres=rgpu:2 --rgpu-span sh -c 'echo "$SLURM_JOB_ID"; python3 "$0"' \
    "$py/lease_parts.py"
is "$rc ${out#*$'\n'}" "0 gpu1:2" "another that one server can serve runs meanwhile" || diag "$err"
two=${out%%$'\n'*}
is_gone() { [ -z "$(squeue -h -j "$two" 2> /dev/null)" ]; }
wait_for 30 is_gone
is "$(grep -E "JobId=$two " "$cluster/log/slurmctld" | grep -ci "epilog.*status")" 0 \
    "... and its epilog misses nothing on the server that is away"
back gpu2
synced_free() { rgpu slurm sync > "$T/sync" 2>&1; all_free; }
ok "the server is back: what it has of that run is ended" wait_for 90 synced_free
scancel "$one"
done_testing
