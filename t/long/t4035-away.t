#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A server that is away is in nobody's way but of those whose GPUs it has: others' jobs start, wait,
# start again and end.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/slurm.sh"
cluster_up
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"

# What the controller's scripts end with.
for script in prolog epilog; do
    mv "$cluster/libexec/rgpu/$script-slurmctld" "$T/$script"
    printf '#!/bin/sh\n%q\nrc=$?\necho "$SLURM_JOB_ID:$rc" >> %q\nexit $rc\n' "$T/$script" \
        "$T/$script.ended" \
        > "$cluster/libexec/rgpu/$script-slurmctld"
    chmod 755 "$cluster/libexec/rgpu/$script-slurmctld"
done
ended() { grep -q "^$1:" "$T/$2.ended"; }
how() { grep "^$1:" "$T/$2.ended" | tail -n 1; }

crash rgpud.gpu2
submitted --gres=rgpu:1 --wrap "$(until_file "$T/first")"; first=$job
ok "a job finds its GPU on the other server" wait_for 30 is_state "$first" RUNNING

# Licences for it are there, a server for its second node is not.
submitted -N 2 --gres=rgpu:1 --wrap true; both=$job
waits() { is_state "$both" CONFIGURING; }
ok "a job on two nodes waits for its second GPU in its prolog" wait_for 30 waits
touch "$T/first"
ok "and runs when that is free" wait_for 60 is_state "$both" COMPLETED
wait_for 30 ended "$first" epilog
is "$(how "$first" epilog)" "$first:0" \
    "the epilog of the first has seen its lease end, and asks the silent server nothing more"
wait_for 30 ended "$both" epilog
is "$(how "$both" epilog)" "$both:0" "so has that of the second, which had two"

submitted --gres=rgpu:1 --wrap "$(until_file "$T/again")"; again=$job
wait_for 30 is_state "$again" RUNNING
scontrol requeue "$again"
ok "a job is requeued" wait_for 30 is_state "$again" PENDING
start_now "$again"
ok "and starts again, though a server does not answer" wait_for 60 is_state "$again" RUNNING
is "$(restarts "$again") $(how "$again" prolog)" "1 $again:0" "at the first try"
touch "$T/again"
ok "it ends well" wait_for 30 is_state "$again" COMPLETED

# --- the lease of the run before, on a server that was away when the job started again

start_rgpud gpu2
both_up() { [ "$(rgpu list --json | grep -c '"reachable": true')" = 2 ]; }
wait_for 30 both_up
submitted --gres=rgpu:1 --wrap "$(until_file "$T/moved")"; moved=$job
wait_for 30 is_state "$moved" RUNNING
before=$(server_of "$moved")
crash "rgpud.$before"
scontrol requeue "$moved"
wait_for 60 is_state "$moved" PENDING
start_now "$moved"
has_second() { [ "$(grep -c "^$moved:" "$T/prolog.ended")" = 2 ]; }
ok "a job starts again while the server that it had is away" wait_for 60 has_second
start_rgpud "$before"
wait_for 30 both_up
is "$(rgpu leases --json | grep -c "\"job\": \"$moved\"")" 2 \
    "which comes back with the lease of the first run"
ok "the job runs" wait_for 30 is_state "$moved" RUNNING
# As its node's prolog would now: Slurm does not run that again on a node where the job has been a
# moment ago.
node=$(squeue -h -j "$moved" -o %N)
env SLURM_JOB_ID="$moved" SLURM_JOB_UID=0 SLURMD_NODENAME="$node" SPANK_RGPU_NODES=1 rgpu slurm \
    node-prolog
other=$([ "$before" = gpu1 ] && echo gpu2 || echo gpu1)
is "$(grep -o '"name": "gpu[12]"' "$cluster/run/$node/$moved/lease.json")" "\"name\": \"$other\"" \
    "its lease file has the server of this run alone"
touch "$T/moved"
ok "it ends, and both leases with it" wait_for 30 all_free
done_testing
