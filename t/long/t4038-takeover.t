#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The controller dies, and its backup takes over: jobs keep their GPUs, give them back, and still
# avoid the servers that they lost.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/slurm.sh"
unshare -um true 2> /dev/null ||
    skip_all \
    "a second slurmctld on one host needs namespaces for its name and its address (unshare -um)"
cluster_up --backup --rgpud 'slurm_check = "1s"'
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"
. "$(dirname "$0")/../lib/lost.sh"
configure 'lost_after = "1s"'

leases() { rgpu leases --json | grep -oE '"id": "[0-9a-f]+"' | sort; }
# As by its timer: the sync before withheld what the old lease still held.
all_agree() { rgpu slurm sync > "$T/sync" 2>&1; rgpu slurm check; }

submitted -N 2 --gres=rgpu:1 --wrap "$(until_file "$T/both")"; both=$job
wait_for 30 runs "$both"
submitted --gres=rgpu:1 --wrap "$(fails_at "$T/dead")"; lost=$job
wait_for 30 runs "$lost"
server=$(server_of "$lost")
crash "rgpud.$server"
touch "$T/dead"
ok "a job has lost its server, and waits to start again" wait_for 60 is_requeued "$lost"
wait_for 20 has_note "$lost"
back "$server"
rm "$T/dead"
# The lease of its first run is over: the job holds nothing now.
rgpu slurm sync > "$T/sync" 2>&1
before=$(leases)
is "$(wc -l <<< "$before")" 2 "another one holds two leases"

# An order, so that the first writes down the jobs of the last seconds; the second does the rest as
# after a crash.
try 60 scontrol takeover
is $rc 0 "the backup takes over" || diag "$err"
primary_gone() { tap_gone "$(cat "$cluster/pid/slurmctld" 2> /dev/null || echo 0)"; }
ok "the first slurmctld is gone" wait_for 60 primary_gone
ok "the second knows the job" wait_for 60 runs "$both"
is "$(leases)" "$before" "which has its leases"
ok "leases and licences are the same" wait_for 60 agree
ok "Slurm and the pool agree" wait_for 60 all_agree

submitted --gres=rgpu:1 --wrap true
ok "a new job gets its GPU by the second's prolog" wait_for 60 is_state "$job" COMPLETED
touch "$T/both"
ok "the job on two nodes ends well" wait_for 60 is_state "$both" COMPLETED
ok "its leases are ended by the second's epilog" wait_for 60 all_free
start_now "$lost"
# A backup of Slurm 22.05 looks for jobs whose time has come only when something happens.
runs_when_looked_at() { scontrol update "JobId=$1" Nice=0; runs "$1"; }
ok "the job that lost its server starts again" wait_for 60 runs_when_looked_at "$lost"
unlike "$(server_of "$lost")" "^($server|)$" \
    "on another one: the second has read it in the job's comment"
touch "$T/dead"
ok "all is given back in the end" wait_for 60 all_free
done_testing
