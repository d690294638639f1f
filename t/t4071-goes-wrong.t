#!/bin/bash
# doc/when-it-goes-wrong.md is what users see when something goes wrong. RGPU_WRITE=1 writes it.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"
[ -x "$build/cuda/steady-static" ] || skip_all "steady is not built; run make cuda"
slurm_is 23.02 && skip_all "the page shows Slurm 22.05, whose own words others do not have"
unset CUDA_VISIBLE_DEVICES MASTER_ADDR RGPU_LEASE LD_LIBRARY_PATH

(. "$root/t/lib/goes-wrong.sh") > "$T/page.md"
[ -z "${RGPU_WRITE-}" ] || cp "$T/page.md" "$root/doc/when-it-goes-wrong.md"
ok "the page is what is seen" diff -u "$root/doc/when-it-goes-wrong.md" "$T/page.md"
done_testing
