#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Launches with one GPU a task, as MPI and torchrun make them: data_parallel.py over two nodes with
# two remote GPUs each. RGPU_LONG=1: it is also started as torchrun would, and by its sbatch script.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
python=$build/venv/bin/python3
[ -x "$python" ] || skip_all "$python is not there; run make venv (it needs PyPI)"
cluster_up
unset LD_LIBRARY_PATH RGPU_LEASE CUDA_VISIBLE_DEVICES RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR \
    MASTER_PORT
export XDG_CACHE_HOME=$T/cache PYTHONDONTWRITEBYTECODE=1
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"
cd "$root/contrib/examples" || exit
steps=(--steps 3)

# "2 cn1 CUDA" for each rank; how many GPUs there are; the last loss.
seen()
{
    sed -n 's/^rank \([0-9]\) of [0-9] on \(cn[12]\): \(CUDA[:0-9]*\) .*/\1 \2 \3/p' <<< "$out" |
        sort | xargs
}
gpus() { grep -o 'GPU-.*' <<< "$out" | sort -u | wc -l; }
loss() { sed -n 's/^step 3 *loss //p' <<< "$out"; }
near()
{
    python3 -c "import sys; a, b = map(float, sys.argv[1:]); sys.exit(abs(a - b) > 1e-4 * abs(a))" \
        "$@"
}
meet_at() { export MASTER_ADDR=127.0.0.1 MASTER_PORT; MASTER_PORT=$(free_port); }

try 300 srun -N 1 -n 1 --gres=rgpu:1 "$python" data_parallel.py "${steps[@]}"
is "$rc $(gpus)" "0 1" "one process trains on one GPU" || diag "$out$err"
one=$(loss)

meet_at
try 300 srun -N 2 -n 4 --ntasks-per-node=2 --gres=rgpu:2 --rgpu-bind=single:1 "$python" \
    data_parallel.py "${steps[@]}"
is "$rc $(seen)" "0 0 cn1 CUDA 1 cn1 CUDA 2 cn2 CUDA 3 cn2 CUDA" \
    "four tasks on two nodes, each sees one GPU and takes it" || diag "$out$err"
is "$(gpus)" 4 "... which are four"
ok "... the loss is that of one process with the whole batch: $(loss), $one" near "$(loss)" "$one"

by_launch()
{
    try 300 srun -N 2 -n 2 --ntasks-per-node=1 --gres=rgpu:2 "$python" launch.py \
        --nproc-per-node=2 "$@"
}
by_launch "$py/rank_gpu.py"
sentence="one task a node starts two processes, as torchrun does: each sees both GPUs of its node "
sentence+="and is told its own"
is "$rc $(sed 's/ GPU-.*//' <<< "$out" | sort | xargs)" \
    "0 0 4 0 2 cn1 of 2 1 4 1 2 cn1 of 2 2 4 0 2 cn2 of 2 3 4 1 2 cn2 of 2" \
    "$sentence" || diag "$out$err"
is "$(gpus)" 4 "... which are four"

if [ -n "${RGPU_LONG:-}" ]; then
    meet_at
    by_launch data_parallel.py "${steps[@]}"
    is "$rc $(seen)" "0 0 cn1 CUDA 1 cn1 CUDA:1 2 cn2 CUDA 3 cn2 CUDA:1" "they train" ||
        diag "$out$err"
    is "$(gpus)" 4 "... on four GPUs"
    ok "... with the same loss: $(loss)" near "$(loss)" "$one"

    meet_at
    submitted -o "$T/out" --export=ALL,PYTHON="$python" data_parallel.sbatch "${steps[@]}"
    ok "data_parallel.sbatch ends well" wait_for 300 is_state "$job" COMPLETED ||
        diag "$(cat "$T/out")"
    out=$(cat "$T/out")
    ok "... with the same loss: $(loss)" near "$(loss)" "$one"
fi

# --- what goes wrong ends all, with a sentence

try 120 srun -N 1 -n 2 --gres=rgpu:2 --rgpu-bind=single:1 "$python" data_parallel.py --batch 241
like "$rc $err" '^1 .*--batch=241 cannot be divided by 2 processes' "a batch that cannot be divided"
cat > "$T/fails.py" <<'END'
import os, sys, time
sys.exit(7) if os.environ["RANK"] == "1" else time.sleep(600)
END
try 60 srun -N 1 -n 1 --gres=rgpu:2 "$python" launch.py --nproc-per-node=2 "$T/fails.py"
is "$rc" 7 "launch.py ends the others when one has failed, with its status" || diag "$err"
ok "the GPUs are free again" wait_for 20 all_free
done_testing
