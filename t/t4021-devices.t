#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In a Slurm job, tasks see the leased GPUs as devices of their node, in a mount namespace of their
# own: nothing changes for slurmstepd and others on the node.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
needs_device_view
cluster_up --local-gpu
unset RGPU_LEASE LD_LIBRARY_PATH
node="python3 $py/gpu_node.py"
own=$(readlink /proc/self/ns/mnt)
mounts=$(grep -c . /proc/self/mountinfo)

# shellcheck disable=SC2086 # a command of two words
try 60 srun --gres=rgpu:2 $node
is "$rc:$(head -n 1 <<< "$out")" "0:devices nvidia-uvm nvidia-uvm-tools nvidia0 nvidia1 nvidiactl" \
    "a task sees the device files" || diag "$out$err"
is "$(grep -c '^gpu 7' <<< "$out")" 2 "CUDA, NVML, /proc and /sys agree" || diag "$out"
# shellcheck disable=SC2086
try 60 srun --gres=gpu:1,rgpu:2 $node
is "$rc:$(grep -c '^gpu 7' <<< "$out")" 0:2 "beside a GPU of the node it sees the leased ones" ||
    diag "$out$err"
try 60 srun -N 2 --ntasks-per-node=2 --gres=rgpu:1 sh -c \
    'echo "$SLURMD_NODENAME $(readlink /proc/self/ns/mnt) $(ls /dev | grep -c "^nvidia[0-9]")"'
is "$rc:$(sort -u <<< "$out" | wc -l):$(grep -c ' 1$' <<< "$out")" 0:4:4 \
    "each task of each node has a namespace of its own" || diag "$out$err"
try 60 srun --gres=rgpu:1 nvidia-smi -L
like "$rc:$out" '^0:GPU 0: .*UUID: GPU-' "nvidia-smi is in PATH" || diag "$err"
try 60 srun --gres=rgpu:1 env -u RGPU_LEASE sh -c 'echo "$CUDA_ROOT $XLA_FLAGS"'
like "$rc:$out" "^0:$build/lib/ptx --xla.*=$build/lib/ptx\$" \
    "compilers find the stand-in for ptxas" || diag "$err"

submitted --gres=rgpu:2 -o "$T/out" --wrap "ls /dev | grep -c '^nvidia[0-9]'
srun --overlap -n 1 sh -c 'ls /dev | grep -c \"^nvidia[0-9]\"'"
ok "a batch job ends well" wait_for 60 is_state "$job" COMPLETED
is "$(cat "$T/out")" "2
2" "its script sees them, and its step does" || diag "$(cat "$T/out")"

# --- the node, and slurmstepd

start held srun --gres=rgpu:1 sh -c 'echo there; while [ ! -e "$0" ]; do sleep 0.1; done' "$T/end"
ok "a step runs" wait_for 60 grep -q there "$T/held.log"
id=$(squeue -h -t RUNNING -o %i)
is "$(for pid in $(stepds "$id"); do readlink "/proc/$pid/ns/mnt"; done | sort -u)" "$own" \
    "slurmstepd stays in the node's namespace"
task=$(pgrep -f "sh -c echo there; while .* $T/end" | while read -r pid; do
    [ "$(readlink "/proc/$pid/ns/mnt")" = "$own" ] || echo "$pid"; done | tail -n 1)
ok "its task is in another" test -n "$task"
is "$(compgen -G '/dev/nvidia*')" "" "the node has no such files"
is "$(grep -c . /proc/self/mountinfo)" "$mounts" "nor any mount more"
: > "$T/end"
wait "$pid" 2> /dev/null
try 60 srun --gres=rgpu:1 true
is "$rc" 0 "and takes further jobs"

# --- without

try 60 srun sh -c 'ls /dev/nvidia*; readlink /proc/self/ns/mnt'
is "$rc:$out" "0:$own" "a job without GPUs of the pool is left alone"
try 60 srun --gres=rgpu:1 --rgpu-no-devices sh -c 'ls /dev/nvidia*; readlink /proc/self/ns/mnt'
is "$rc:$out" "0:$own" "--rgpu-no-devices leaves them out" || diag "$err"
try 60 srun --gres=rgpu:1 sh -c 'touch /dev/x; grep -c "/dev rw" /proc/self/mountinfo;
    printf x > /dev/null && ls -d /dev/shm/. /dev/pts/. && python3 -c "import os; os.openpty()"'
like "$rc:$out" '^0:.*/dev/pts/\.' "/dev is as it was otherwise" || diag "$out$err"

# What the job's user writes into the lease file chooses nothing.
submitted --gres=rgpu:1 -o "$T/odd.out" --wrap "chmod 600 \"\$RGPU_LEASE\" &&
sed -i 's/\"uuid\": *\"[^\"]*\"/\"uuid\": \"..\/..\/etc\\\\nx\"/' \"\$RGPU_LEASE\"
cp \"\$RGPU_LEASE\" $T/lease
srun --overlap sh -c 'cat /proc/driver/nvidia/gpus/*/information'"
ok "a job whose lease file is written over ends" wait_for 60 is_state "$job" COMPLETED ||
    diag "$(cat "$T/odd.out")"
like "$(cat "$T/odd.out")" 'GPU UUID:[[:space:]]+\.\./\.\./etc\?x' \
    "with what he wrote as one line of text" || diag "$(cat "$T/odd.out")"
mkdir "$T/evil" && ln -s /etc "$T/evil/nvidia" && chmod 777 "$T/evil"
TMPDIR=$T/evil try 60 srun --gres=rgpu:1 setpriv --reuid 65534 --regid 65534 --clear-groups sh -c \
    'umount /dev || unshare -Urm umount /dev && echo away
    ls /dev | grep -c "^nvidia[0-9]"; ls "$TMPDIR"'
is "$rc:$out" "0:1
nvidia" "no user takes the view away, and none of his folders has a part in it" || diag "$err"
unlike "$(ls /etc/nvidia* /dev/nvidia* 2> /dev/null)" . "and nothing of it is on the node"
ok "everything is free" wait_for 10 all_free
done_testing
