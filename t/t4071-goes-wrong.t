#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# doc/when-it-goes-wrong.md is what users see when something goes wrong. RGPU_WRITE=1 writes it.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"
[ -x "$build/cuda/steady-static" ] || skip_all "steady is not built; run make cuda"
unset CUDA_VISIBLE_DEVICES MASTER_ADDR RGPU_LEASE LD_LIBRARY_PATH

(. "$root/t/lib/goes-wrong.sh") > "$T/page.md"
[ -z "${RGPU_WRITE-}" ] || slurm_is 23.02 || cp "$T/page.md" "$root/doc/when-it-goes-wrong.md"
# Slurm 22.05 leaves it to us to refuse --cpus-per-gpu; the page shows that.
for page in "$root/doc/when-it-goes-wrong.md" "$T/page.md"; do
    if slurm_is 23.02; then sed '/cpus-per-gpu=4/,/^$/d' "$page"; else cat "$page"; fi \
        > "$T/$(basename "$page").seen"
done
ok "the page is what is seen" diff -u "$T/when-it-goes-wrong.md.seen" "$T/page.md.seen"
done_testing
