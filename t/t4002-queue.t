#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The queue: Slurm sells what the pool has, no more and no less.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"

# A job that runs until its file is there.
leased() { rgpu list --json | grep -c "\"job\": \"$1\""; }

submitted --gres=rgpu:2 --wrap "$(until_file "$T/first")"; first=$job
submitted --gres=rgpu:2 --wrap "$(until_file "$T/second")"; second=$job
ok "the first job of two GPUs runs" wait_for 20 is_state "$first" RUNNING
ok "the second, too" wait_for 20 is_state "$second" RUNNING
is "$(rgpu list | tail -n 1)" "0 of 4 GPUs free" "the pool is in use"
submitted --gres=rgpu:2 --wrap "$(until_file "$T/third")"; third=$job
waits_for_licences() { [ "$(job_reason "$third")" = Licenses ]; }
ok "the third waits, with reason Licenses" wait_for 20 waits_for_licences
is "$(job_state "$third")" PENDING "it is PENDING"
submitted --wrap true
ok "a job without GPUs passes it" wait_for 20 is_state "$job" COMPLETED
touch "$T/first"
ok "when the first ends, the third runs" wait_for 20 is_state "$third" RUNNING
is "$(leased "$third")" 1 "and holds a lease"
is "$(leased "$first")" 0 "the first holds none any more"
touch "$T/second" "$T/third"
ok "in the end everything is free" wait_for 10 all_free

submitted -N 2 --gres=rgpu:2 -o "$T/two-nodes" \
    --wrap \
    "srun sh -c 'echo \$SLURMD_NODENAME \$(grep -c secret \$RGPU_LEASE)'; $(until_file "$T/nodes")"
ok "a job on two nodes runs" wait_for 20 is_state "$job" RUNNING
is "$(leased "$job")" 2 "with a lease for each node"
both_printed() { [ "$(wc -l < "$T/two-nodes")" = 2 ]; }
wait_for 20 both_printed
is "$(sort "$T/two-nodes" | xargs)" "cn1 1 cn2 1" "each node has its own lease file"
touch "$T/nodes"
ok "they are free again" wait_for 10 all_free

jobs=
for i in 1 2 3 4 5 6 7 8; do
    submitted --gres=rgpu:1 --rgpu-share=50 --wrap "$(until_file "$T/half")"; jobs+=" $job"
done
all_run() { for i in $jobs; do is_state "$i" RUNNING || return 1; done; }
ok "eight jobs of half a GPU share four GPUs" wait_for 30 all_run
submitted --gres=rgpu:1 --rgpu-share=1 --wrap true; third=$job
ok "and not a hundredth is left" wait_for 20 waits_for_licences
touch "$T/half"
ok "then they are free" wait_for 20 all_free

# Licences do not count memory: where it is full, the prolog waits.
for i in 1 2 3 4; do
    submitted --gres=rgpu:1 --rgpu-share=10 --rgpu-mem=2G --wrap "$(until_file "$T/full.$i")"
    ok "job $i of four takes the memory of a whole GPU" wait_for 20 is_state "$job" RUNNING
done
submitted --gres=rgpu:1 --rgpu-share=10 --rgpu-mem=2G --wrap true; cancelled=$job
ok "a fifth waits for its GPU while it is being configured" wait_for 20 is_state "$cancelled" \
    CONFIGURING
submitted --gres=rgpu:1 --rgpu-share=10 --rgpu-mem=2G --wrap true
ok "a sixth, too" wait_for 20 is_state "$job" CONFIGURING
scancel "$cancelled"
ok "one that waits can be cancelled" wait_for 10 is_state "$cancelled" CANCELLED
touch "$T/full.1"
ok "the other runs when memory is free" wait_for 20 is_state "$job" COMPLETED
touch "$T"/full.{2,3,4}
ok "then everything is free" wait_for 10 all_free
done_testing
