#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tasks, steps and the job's GPUs: who sees which. --rgpu-bind, --rgpus-per-step, and
# CUDA_VISIBLE_DEVICES.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up --local-gpu
unset RGPU_LEASE LD_LIBRARY_PATH CUDA_VISIBLE_DEVICES
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"

see() { try 60 srun "$@" python3 "$py/task_gpus.py"; seen=$(sort <<< "$out" | xargs); }

see -n 2 --gres=rgpu:2
is "$rc:$seen" "0:0:0,1 1:0,1" "every task sees all GPUs of its node" || diag "$err"
see -n 2 --gres=rgpu:2 --rgpu-bind=none
is "$rc:$seen" "0:0:0,1 1:0,1" "--rgpu-bind=none: that" || diag "$err"
see -n 2 --gres=rgpu:2 --rgpu-bind=closest
is "$rc:$seen" "0:0:0,1 1:0,1" "--rgpu-bind=closest: all are equally far" || diag "$err"
see -n 4 --gres=rgpu:2 --rgpu-bind=single:2
is "$rc:$seen" "0:0:0 1:0 2:1 3:1" "--rgpu-bind=single:2: one GPU for each two tasks" || diag "$err"
see -n 3 --gres=rgpu:2 --rgpu-bind=map:1,0
is "$rc:$seen" "0:0:1 1:0 2:1" "--rgpu-bind=map:1,0: as the map says, and round again" ||
    diag "$err"
see -N 2 --ntasks-per-node=2 -n 4 --gres=rgpu:2 --rgpu-bind=single:1
is "$rc:$seen" "0:0:0 1:1 2:0 3:1" \
    "one GPU a task on two nodes of two GPUs, as launchers of training want it" || diag "$err"
see -n 2 --gres=rgpu:2 --rgpu-bind=map:0,5
like "$rc $err" \
    "^[1-9].*--rgpu-bind=map gives task 1 GPU 5, but its step has 2 on this node \(0 to 1\)" \
    "a GPU that is not there ends the step, with a sentence"
for wrong in single:0 single: map: map:x both ''; do
    try 20 srun --gres=rgpu:1 --rgpu-bind="$wrong" true
    like "$rc $err" "^[1-9].*--rgpu-bind=$wrong: give none, closest, single:N" \
        "--rgpu-bind=$wrong is refused where it is typed"
done

# --- what the program itself, or Slurm, says

see -n 1 --gres=gpu:1,rgpu:2
is "$rc:$seen" "0:0:0,1" "a GPU of the node hides none of the pool's" || diag "$err"
try 60 srun -n 1 --gres=gpu:1,rgpu:2 sh -c 'echo "$RGPU_GPUS $SLURM_GPUS_ON_NODE"'
is "$rc:$out" "0:2 1" "... and RGPU_GPUS counts the latter, where Slurm counts the node's own" ||
    diag "$err"
# Slurm takes away what comes from outside where nodes have GPUs of their own, and the job has none
# of them.
see --gres=rgpu:2 env CUDA_VISIBLE_DEVICES=1
is "$rc:$seen" "0:0:1" "the user's own CUDA_VISIBLE_DEVICES counts" || diag "$err"
see --gres=rgpu:2 env CUDA_VISIBLE_DEVICES=1,0
is "$rc:$seen" "0:0:1,0" "also for the order" || diag "$err"
see --gres=rgpu:2 env CUDA_VISIBLE_DEVICES=
is "$rc:$seen" "0:0:" "none are none" || diag "$err"
program='CUDA_VISIBLE_DEVICES=1 python3 "$0"; CUDA_VISIBLE_DEVICES=$(grep -o "GPU-[^\"]*" '
program+='"$RGPU_LEASE" | sed -n 2p) python3 "$0"; python3 "$0"'
try 60 rgpu run -n 2 -- sh -c "$program" "$py/task_gpus.py"
is "$rc:$(xargs <<< "$out")" "0:-:1 -:1 -:0,1" "in rgpu run, too, by number and by UUID" ||
    diag "$err"

# --- memory: each GPU of the lease has its own cap, whoever sees it

mkdir "$T/memory"; touch "$T/memory/go"
try 60 srun -n 2 --gres=rgpu:2 --rgpu-mem=300M --rgpu-bind=single:1 python3 "$py/task_gpus.py" 200 \
    "$T/memory" 2
is "$rc:$(sort <<< "$out" | xargs)" "0:0:0 0 1:1 0" \
    "two tasks have 200 of 300 MiB each, on their own GPUs" || diag "$err"
mkdir "$T/same"; touch "$T/same/go"
try 60 srun -n 2 --gres=rgpu:2 --rgpu-mem=300M --rgpu-bind=map:1 python3 "$py/task_gpus.py" 200 \
    "$T/same" 2
is "$rc:$(cut -d' ' -f2 <<< "$out" | sort | xargs)" "0:0 2" \
    "on the same GPU there is room for one" || diag "$err"

# --- steps

salloc --gres=rgpu:2 -n 4 --no-shell 2> "$T/salloc"
job=$(grep -oE 'job allocation [0-9]+' "$T/salloc" | grep -oE '[0-9]+')
step() { name=$1; shift; start "$name" srun --jobid="$job" -n 1 "$@"; }
waiting() { [ "$(find "$1" -name '*:*' | wc -l)" = "$2" ] || { ls "$1"; return 1; }; }
mkdir "$T/share" "$T/divide"
step share.1 --overlap python3 "$py/task_gpus.py" 1 "$T/share" 2; one=$pid
step share.2 --overlap python3 "$py/task_gpus.py" 1 "$T/share" 2; two=$pid
ok "two steps at once" wait_for 60 waiting "$T/share" 2
touch "$T/share/go"
wait "$one" "$two"
is "$(cat "$T/share.1.log" "$T/share.2.log" | xargs)" "0:0,1 0 0 0:0,1 0 0" "share the job's GPUs"
step divide.1 --overlap --rgpus-per-step=1 python3 "$py/task_gpus.py" 1 "$T/divide" 2; one=$pid
step divide.2 --exact --gres=rgpu:1 --rgpus-per-step=1 python3 "$py/task_gpus.py" 1 "$T/divide" \
    2; two=$pid
ok "two steps with a GPU for each" wait_for 60 waiting "$T/divide" 2
mkdir "$T/third"
step divide.3 --overlap --rgpus-per-step=2 python3 "$py/task_gpus.py" 1 "$T/third" 1; three=$pid
touch "$T/divide/go" "$T/third/go"
wait "$one" "$two"
is "$(cat "$T/divide.1.log" "$T/divide.2.log" | sort | xargs)" "0:0 0 0:1 0" \
    "--rgpus-per-step=1 divides them"
wait "$three"
is "$? $(cat "$T/divide.3.log")" "0 0:0,1 0 0" \
    "a step that wants two has both when the others have ended"
try 60 srun --jobid="$job" -n 2 --overlap --rgpus-per-step=1 --rgpu-bind=single:1 python3 \
    "$py/task_gpus.py"
is "$rc:$(sort <<< "$out" | xargs)" "0:0:0 1:0" "the tasks of a step see its GPUs only" ||
    diag "$err"
try 60 srun --jobid="$job" -n 1 --overlap --rgpus-per-step=3 true
like "$rc $err" '^[1-9].*--rgpus-per-step=3, but the job has 2 on this node' \
    "more than the job has are refused"
try 60 srun --jobid="$job" -n 1 --overlap --rgpus-per-step=0 true
like "$rc $err" '^[1-9].*--rgpus-per-step' "0 is no number of GPUs"
try 60 srun --jobid="$job" -n 1 --overlap --rgpu-share=5 --rgpu-span true
like "$rc $err" \
    "^0 srun: rgpu: --rgpu-share=5, --rgpu-span change nothing: job $job has its GPUs already" \
    "options of the whole job, given to a step, are remarked on"
try 60 env SLURM_JOB_ID="$job" srun -n 1 --overlap --rgpu-mem=1G true
like "$rc $err" '^0 srun: rgpu: --rgpu-mem=1G changes nothing' "... by an srun in the job, too"
try 60 srun --jobid="$job" -n 1 --overlap --rgpu-bind=single:1 true
is "$rc $err" "0 " "... and those of a step are not"
scancel "$job"
wait_for 20 all_free
try 60 srun --gres=rgpu:1 --rgpu-share=50 true --jobid=7
is "$rc $err" "0 " "nor are those of an srun with a job of its own"
submitted -o "$T/out" --gres=rgpu:2 --rgpu-bind=single:1 --rgpu-share=50 --rgpu-span --wrap \
    'srun -n 1 --rgpu-share=50 --rgpu-mem=1G sh -c "echo \$CUDA_VISIBLE_DEVICES"'
ok "a script with options runs" wait_for 60 is_state "$job" COMPLETED
like "$(xargs < "$T/out")" \
    "^srun: rgpu: --rgpu-mem=1G changes nothing: job $job has .*outside a job 0\$" \
    "... its steps have them, and what is the job's own is not remarked on"
try 60 salloc --gres=rgpu:2 --rgpu-bind=single:1 --rgpu-share=50 srun -n 1 sh -c \
    'echo $CUDA_VISIBLE_DEVICES'
is "$rc $out" "0 0" "so do those of salloc"
unlike "$err" 'changes nothing' "... without a remark"
ok "all is free" wait_for 20 all_free
none_left() { [ -z "$(find "$cluster/run" -name 'gpu.*')" ]; }
ok "and no lock is left" wait_for 20 none_left
done_testing
