#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Leases of Slurm's jobs with a term: rgpu slurm sync renews them while the job runs, and one that
# no epilog could end ends by it.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/slurm.sh"
cluster_up --rgpud 'max_term = "20s"' --rgpud 'squeue = ""'
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"
. "$(dirname "$0")/../lib/lost.sh"

leases() { rgpu leases --json | grep -oE '"id": "[0-9a-f]+"' | sort; }

submitted --gres=rgpu:1 --wrap "$(until_file "$T/term")"; term=$job
wait_for 30 runs "$term"
server=$(server_of "$term")
before=$(leases)
left() { rgpu leases --json | sed -n 's/.*"expires_in_ms": \([0-9]*\).*/\1/p' | head -n 1; }
runs_down() { [ "$(left)" -lt 19000 ]; }
ok "a lease of [rgpud] max_term runs down" wait_for 60 runs_down
low=$(left)
rgpu slurm sync > "$T/sync" 2>&1
ok "rgpu slurm sync renews it while the job runs" [ "$(left)" -gt "$low" ]
is "$(leases)" "$before" "it is the same lease"
crash "rgpud.$server"
scancel "$term"
gone() { [ -z "$(squeue -h -o %i)" ]; }
ok "the job ends while the server is away" wait_for 60 gone
rgpu slurm sync > "$T/sync" 2>&1
like "$(cat "$T/sync")" '200 of 400 licences can be sold now' "the server's capacity is withheld"
back "$server"
rgpu slurm sync > "$T/sync" 2>&1
like "$(cat "$T/sync")" '300 of 400 licences can be sold now' \
    "when it is back, that of the lease is"
ok "until the lease's term is over" wait_for 60 all_free
rgpu slurm sync > "$T/sync" 2>&1
like "$(cat "$T/sync")" '400 of 400 licences can be sold now' "then all can be sold"
done_testing
