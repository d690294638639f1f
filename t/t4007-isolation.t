#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two jobs at once on one GPU do not see each other's memory.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up
program=$build/cuda/address_of_other-static
[ -x "$program" ] || skip_all "$program is not built; run make cuda"

submitted --gres=rgpu:1 --rgpu-share=50 -o "$T/hold" -e "$T/hold.err" --wrap \
    "exec $program hold $T/address"
holder=$job
ok "a job writes a pattern into half a GPU" wait_for 60 [ -s "$T/address" ] ||
    diag "$(cat "$T/hold.err")"
note "it lies at $(cat "$T/address")"
submitted --gres=rgpu:1 --rgpu-share=50 -o "$T/touch" -e "$T/touch.err" --wrap \
    "sleep 1; rgpu list > $T/list; exec $program touch $T/address"
toucher=$job
ended() { case $(job_state "$1") in COMPLETED | FAILED | CANCELLED) ;; *) return 1 ;; esac; }
ok "another reaches for it" wait_for 90 ended "$toucher"
same_gpu()
{
    grep -E "job $holder on" "$T/list" | grep -qE "job $toucher on|$(printf '%s' "$holder")" &&
        [ "$(grep -c ' 0% ' "$T/list")" = 1 ]
}
ok "on the same GPU" same_gpu || diag "$(cat "$T/list")"
is "$(job_state "$toucher")" COMPLETED "nothing of it can be reached" ||
    diag "$(cat "$T/touch" "$T/touch.err")"
like "$(cat "$T/touch")" 'copy: cudaError' "a copy from its address fails"
like "$(cat "$T/touch")" 'memset: cudaError' "a memset there fails"
like "$(cat "$T/touch")" 'kernel: cudaError' "a kernel that reads there fails"
unlike "$(cat "$T/touch")" 'was read|holds the other' "fresh memory does not hold its data"
touch "$T/address.done"
ok "the first job ends" wait_for 60 ended "$holder"
is "$(cat "$T/hold")" unharmed "its memory is as it was" || diag "$(cat "$T/hold.err")"
ok "everything is free" wait_for 5 all_free
done_testing
