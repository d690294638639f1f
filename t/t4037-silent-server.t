#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Jobs that run on though their server is dead: rgpu slurm sync gives them up when it has been
# silent for lost_after, and not before.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"
. "$(dirname "$0")/lib/lost.sh"

sync() { rgpu slurm sync >> "$T/sync" 2>&1; rgpu list > /dev/null; }
# Until what sync is to do has been done: it is run again and again, as by its timer.
syncs_until() { sync; "$@"; }
stays() { is "$(job_state "$1") $(restarts "$1")" "RUNNING 0" "$2"; }
answered() { sync; ! grep -q ' ' <(tail -n +2 "$cluster/run/pool.snapshot.silent"); }

# One job a server: each takes all of it.
submitted --gres=rgpu:2 --wrap "$(until_file "$T/end")"; one=$job
submitted --gres=rgpu:2 --wrap "$(until_file "$T/end")"; two=$job
wait_for 30 runs "$one"; wait_for 30 runs "$two"
server=$(server_of "$one") other=$(server_of "$two")

configure 'lost_after = "2m"'
crash "rgpud.$server"
sync
sync
stays "$one" "a server does not answer: its job runs on at first"
back "$server"
sync
is "$(tail -n +2 "$cluster/run/pool.snapshot.silent")" "" \
    "it answers again: its silence is forgotten"

configure 'lost_after = "1s"'
crash "rgpud.$server"
ok "silent for lost_after: its job is requeued" wait_for 60 syncs_until is_requeued "$one"
like "$(note_of "$one")" "^rgpu: lost server $server .*connect.*: requeued; avoids $server until" \
    "its comment names server and cause"
like "$(cat "$T/sync")" "job $one: lost server $server .*: requeued" "and sync says what it does"
stays "$two" "the other server's job runs on"

# --- the lease of the run that is over

back "$server"
gone() { [ -z "$(server_of "$one")" ]; }
ok "the server is back with the lease of that run: sync ends it, though the job is there" wait_for \
    60 syncs_until gone
like "$(cat "$T/sync")" "job $one: its lease on $server of a run before this one: ended" \
    "and says so"
try 60 rgpu slurm check
unlike "$out" 'reservation rgpu_missing' "what it held can be sold at once"
scancel "$one"

# --- no server answers

crash "rgpud.$server"
crash "rgpud.$other"
says_none()
{
    grep -q 'no server has answered for 1s: check this host.s network; no job is given up' \
        "$T/sync"
}
ok "no server answers at all" wait_for 60 syncs_until says_none
stays "$two" "no job is given up"
start_rgpud "$server"; back "$other"
ok "all answer again" wait_for 30 answered
touch "$T/end"
wait_for 30 is_state "$two" COMPLETED

done_testing
