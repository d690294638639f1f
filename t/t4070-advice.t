#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A task whose surroundings are wrong says so in one line on its stderr, with cause and cure.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up
unset CUDA_VISIBLE_DEVICES RGPU_LEASE LD_LIBRARY_PATH MASTER_ADDR

lines() { grep -c "rgpu: $1" <<< "$err"; }

# --- CUDA_VISIBLE_DEVICES

show='echo "devices=$CUDA_VISIBLE_DEVICES shell=$RGPU_SHELL_DEVICES"'
try 30 srun --gres=rgpu:2 sh -c "$show"
is "$out" "devices= shell=" "without the variable a task has none"
try 30 env CUDA_VISIBLE_DEVICES=7 srun --gres=rgpu:2 sh -c "$show"
is "$out" "devices=0,1 shell=" "one of the submitting shell is overwritten by the job's"
is "$(lines 'CUDA_VISIBLE')" 0 "... without a word"
CUDA_VISIBLE_DEVICES=7 submitted --gres=rgpu:2 -o "$T/out" --wrap \
    "$show; CUDA_VISIBLE_DEVICES=1 srun sh -c '$show'; CUDA_VISIBLE_DEVICES=5 srun sh -c '$show'"
wait_for 40 is_state "$job" COMPLETED
is "$(sed -n 1p "$T/out")" "devices=0,1 shell=" "so it is in a batch script"
like "$(cat "$T/out")" 'devices=1 shell=' "... what the script sets stays"
like "$(cat "$T/out")" 'rgpu: CUDA_VISIBLE_DEVICES=5 hides GPUs: the job has 2 here, 0 to 1, ' \
    "... and is remarked on where it names a GPU that the job does not have"
like "$(cat "$T/out")" 'devices=5 shell=' "... and stays, too"
try 30 env CUDA_VISIBLE_DEVICES=7 srun --gres=rgpu:2 -n 2 --rgpu-bind=single:1 sh -c "$show"
is "$(sort <<< "$out")" "devices=0 shell=
devices=1 shell=" "--rgpu-bind has the last word"
try 30 env CUDA_VISIBLE_DEVICES=7 srun sh -c "$show"
like "$out" 'devices=7' "a job without GPUs of the pool keeps its shell's"

# --- MASTER_ADDR

try 60 env MASTER_ADDR=no-such-host.invalid srun -N 1 -n 2 --gres=rgpu:1 true
is "$rc" 0 "a MASTER_ADDR that cannot be resolved stops nobody"
is "$(lines 'MASTER_ADDR=no-such-host.invalid cannot be resolved on this node')" 1 \
    "... one line of one task says so"
like "$err" 'set it to a name that the nodes know: .*scontrol show hostnames' "... and what to do"
try 30 env MASTER_ADDR=127.0.0.1 srun --gres=rgpu:1 true
is "$(lines MASTER_ADDR)" 0 "one that can be is not remarked on"

# --- salloc

try 60 salloc --gres=rgpu:1 true
like "$err" 'rgpu: this shell stays where it is, without GPUs: start programs with srun' \
    "salloc, whose shell stays on its host, says how programs get the GPUs"
try 60 salloc true
is "$(lines 'this shell')" 0 "... not without GPUs"
try 60 srun --gres=rgpu:1 true
is "$(lines 'this shell')" 0 "... nor does srun"

# --- the interposer

plugstack=$cluster/etc/plugstack.conf.d/rgpu.conf
sed -i 's| interposer=[^ ]*| interposer=/nonexistent|' "$plugstack"
try 30 srun --gres=rgpu:1 true
told='rgpu: programs find no GPU here: /nonexistent/libcuda.so.1: No such file or directory; '
told+='install rgpu on this node, or correct interposer= in plugstack.conf'
like "$err" "$told" "a wrong path of the interposer is told"
done_testing
