#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Daemons that end and come back while jobs hold GPUs: slurmctld, slurmd, rgpud; and an epilog that
# reaches no server.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"

both_are() { [ "$(held) $(sold)" = "$1 $1" ] ||
    { echo "leases hold $(held), licences in use $(sold)"; return 1; }; }
holds() { ok "$2: leases and licences are $1" wait_for 30 both_are "$1"; }
synced() { rgpu slurm sync --quiet; }
all_agree() { rgpu slurm check; }
whole() { rgpu list | tail -n 1 | grep -qx '4 of 4 GPUs free'; }
leases() { rgpu leases --json | grep -oE '"id": "[0-9a-f]+"' | sort; }

# From here on both rgpud ask Slurm each second which jobs there are.
for server in gpu1 gpu2; do
    crash "rgpud.$server"
    sed -i 's/^\[rgpud\]/&\nslurm_check = "1s"/' "$cluster/etc/$server.conf"
    start_rgpud "$server"
done
ok "both servers are back" wait_for 30 synced

# --- slurmctld

submitted -N 2 --gres=rgpu:1 --wrap "$(until_file "$T/ctld")"; both=$job
ok "a job on two nodes runs" wait_for 30 is_state "$both" RUNNING
holds 200 "it holds its GPUs"
before=$(leases)
# How often the servers could not ask Slurm.
in_vain() { cat "$cluster"/log/rgpud.gpu[12] | grep -c 'squeue'; }
vain=$(in_vain)
# An orderly end, which writes down the jobs: Slurm itself forgets those of the last seconds before
# a kill -9.
ctld=$(cat "$cluster/pid/slurmctld")
kill "$ctld"
wait_for 20 tap_gone "$ctld"
servers_asked() { [ "$(in_vain)" -gt "$vain" ]; }
ok "slurmctld ends, and the servers notice that they cannot ask it" wait_for 60 servers_asked
is "$(leases)" "$before" "the job keeps its leases"
daemon slurmctld
knows() { is_state "$both" RUNNING; }
ok "the next slurmctld knows the job" wait_for 60 knows
is "$(leases)" "$before" "which has the same leases"
holds 200 "and the same licences"
ok "Slurm and the pool agree" wait_for 60 all_agree

# --- slurmd

# One of Slurm 24.11 that was killed has forgotten which prologs it ran: it would let a new step
# wait for one, drain the node and requeue the job.
slurmd=$(cat "$cluster/pid/slurmd.cn1")
if slurm_is 24.11; then kill "$slurmd"; else kill -9 "$slurmd"; fi
wait_for 20 tap_gone "$slurmd"
daemon slurmd -N cn1
idle_or_used() { [[ $(sinfo -h -n cn1 -o %T) =~ ^(mixed|allocated|idle)$ ]]; }
ok "slurmd ends, and the next one is up" wait_for 60 idle_or_used
is "$(job_state "$both") $(leases)" "RUNNING $before" "the job runs on, with its leases"
try 30 srun --jobid="$both" -w cn1 -N 1 -n 1 --overlap sh -c 'grep -c uuid "$RGPU_LEASE"'
is "$rc:$out" 0:1 "a new step on that node finds its GPU" || diag "$err"
touch "$T/ctld"
ok "the job ends well" wait_for 30 is_state "$both" COMPLETED
ok "and gives everything back" wait_for 30 all_free

# --- an epilog that reaches no server

submitted --gres=rgpu:2 --wrap "$(until_file "$T/never")"; alone=$job
wait_for 30 is_state "$alone" RUNNING
server=$(server_of "$alone")
crash "rgpud.$server"
scancel "$alone"
ok "a job is cancelled whose server ($server) is away" wait_for 60 is_state "$alone" CANCELLED
done_completing() { [ -z "$(squeue -h -o %i)" ]; }
ok "its epilog gives up, and the job is gone" wait_for 60 done_completing
rgpu slurm sync > "$T/sync" 2>&1
like "$(cat "$T/sync")" '200 of 400 licences can be sold now' "that server's capacity is withheld"
start_rgpud "$server"
ok "the server comes back and ends the lease by itself, as Slurm does not know the job" wait_for \
    60 whole
rgpu slurm sync > "$T/sync" 2>&1
like "$(cat "$T/sync")" '400 of 400 licences can be sold now' "then all can be sold"
ok "Slurm and the pool agree" wait_for 60 all_agree

# --- a prolog that is begun anew, as after the death of a slurmctld that was in it

prolog=$cluster/libexec/rgpu/prolog-slurmctld
mv "$prolog" "$prolog.once"
printf '#!/bin/sh\n%q && exec %q\n' "$prolog.once" "$prolog.once" > "$prolog"
chmod 755 "$prolog"
submitted --gres=rgpu:2 -o "$T/anew" --wrap \
    "$build/cuda/vector_add-static && touch $T/added; $(until_file "$T/anew.end")"
ok "a job whose prolog took its GPUs twice runs" wait_for 60 test -e "$T/added" ||
    diag "$(cat "$T/anew")"
holds 200 "what was too much is given back"
touch "$T/anew.end"
wait_for 60 all_free
submitted -N 2 --gres=rgpu:2 --wrap "$(until_file "$T/all.end")"
ok "one that wants all GPUs does not wait for itself" wait_for 60 is_state "$job" RUNNING
holds 400 "it has them"
touch "$T/all.end"
ok "and gives them back" wait_for 60 all_free
mv "$prolog.once" "$prolog"

# --- a program that starts while its server's rgpud is started again

submitted --gres=rgpu:1 -o "$T/meanwhile" --wrap \
    "$(until_file "$T/away"); exec $build/cuda/vector_add-static"; meanwhile=$job
wait_for 30 is_state "$meanwhile" RUNNING
server=$(server_of "$meanwhile")
crash "rgpud.$server"
touch "$T/away"
tries() { grep -q "server $server .* takes no connections" "$T/meanwhile"; }
ok "a program starts while its rgpud is away, and says what it waits for" wait_for 60 tries
start_rgpud "$server"
ok "it goes on when rgpud is back" wait_for 60 is_state "$meanwhile" COMPLETED ||
    diag "$(cat "$T/meanwhile")"
ok "every GPU is free" wait_for 60 all_free
done_testing
