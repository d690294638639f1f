#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# train.py on two remote GPUs, by srun and by sbatch: tinygrad, a client that nobody here wrote.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
python=$build/venv/bin/python3
[ -x "$python" ] || skip_all "$python is not there; run make venv (it needs PyPI)"
cluster_up
unset LD_LIBRARY_PATH RGPU_LEASE
export XDG_CACHE_HOME=$T/cache

try 600 srun --gres=rgpu:2 "$python" "$root/contrib/examples/train.py"
is "$rc" 0 "train.py by srun exits 0" || diag "$out$err"
like "$out" 'training on 2 GPUs' "it uses both GPUs"
like "$out" 'test accuracy (9[5-9]|100)' "it reads at least 95% of the test digits"
note "$(tail -n 5 <<< "$out")"
ok "the GPUs are free again" wait_for 5 all_free

submitted --gres=rgpu:2 -o "$T/out" --wrap "exec $python $root/contrib/examples/train.py"
ok "train.py by sbatch ends well" wait_for 600 is_state "$job" COMPLETED ||
    diag "$(tail -n 20 "$T/out")"
like "$(cat "$T/out")" 'test accuracy (9[5-9]|100)' "with the same accuracy"
ok "the GPUs are free again" wait_for 5 all_free
done_testing
