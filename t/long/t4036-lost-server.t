#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A GPU server dies under a job: the job starts again on another one, and says why; one that is only
# restarted costs nobody anything.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/slurm.sh"
cluster_up --rgpud 'slurm_check = "1s"'
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"

. "$(dirname "$0")/../lib/lost.sh"
# A lost server is waited for as long.
configure 'lost_after = "2s"'

# --- requeued

submitted --gres=rgpu:1 --wrap "$(fails_at "$T/dead1"); true"; one=$job
wait_for 30 runs "$one"
server=$(server_of "$one") other=$(other_of "$(server_of "$one")")
crash "rgpud.$server"
touch "$T/dead1"
ok "a job fails whose server has died: it is requeued" wait_for 60 is_requeued "$one"
wait_for 20 has_note "$one"
sentence="^rgpu: lost server $server \(127.0.0.1:[0-9]+\): .*connect.*: requeued; avoids $server "
sentence+="until 20[0-9-]+T[0-9:]+Z$"
like "$(note_of "$one")" "$sentence" \
    "its comment names the server and the cause, and what was done"
back "$server"
# The server that it had would now be taken before the other one: a GPU of it is in use.
start lent rgpu run -n 1 --server "$server" -- sh -c "$(until_file "$T/lent")"
is_lent() { rgpu leases | grep -q 'pid '; }
wait_for 20 is_lent
rm "$T/dead1"
start_now "$one"
ok "it starts again" wait_for 60 runs "$one"
is "$(server_of "$one")" "$other" \
    "on the other server, though the first is back and would fit better"
touch "$T/dead1"
ok "it fails once more, with all servers alive" wait_for 60 is_state "$one" FAILED
is "$(restarts "$one")" 1 "that is no reason to start it again"
touch "$T/lent"
wait_for 30 all_free

# --- booted under the job, and there again before anybody looks

submitted --gres=rgpu:1 --wrap "$(fails_at "$T/booted")"; booted=$job
wait_for 30 runs "$booted"
server=$(server_of "$booted")
crash "rgpud.$server"
# What its leases know of the boot, as after another one.
python3 "$py/another_boot.py" "$cluster/state/$server" "$(cat /proc/sys/kernel/random/boot_id)"
back "$server"
touch "$T/booted"
ok "the server's host was booted under the job, which fails: it is requeued" wait_for 60 \
    is_requeued "$booted"
wait_for 20 has_note "$booted"
sentence="^rgpu: lost server $server, whose host was started again under the job: requeued; "
sentence+="avoids $server until"
like "$(note_of "$booted")" "$sentence" \
    "though all servers answer"
scancel "$booted"
wait_for 30 all_free

# --- only restarted

configure 'lost_after = "1m"'
submitted --gres=rgpu:1 --wrap "$(fails_at "$T/fail2")"; two=$job
wait_for 30 runs "$two"
server=$(server_of "$two")
crash "rgpud.$server"
mv "$cluster/libexec/rgpu/epilog-slurmctld" "$T/epilog"
printf '#!/bin/sh\ntouch %q\nexec %q\n' "$T/epilog.runs" \
    "$T/epilog" > "$cluster/libexec/rgpu/epilog-slurmctld"
chmod 755 "$cluster/libexec/rgpu/epilog-slurmctld"
touch "$T/fail2"
wait_for 30 test -e "$T/epilog.runs"
back "$server"
ok "a job that fails while rgpud is being restarted" wait_for 60 is_state "$two" FAILED
is "$(restarts "$two")" 0 "is not requeued"
ok "its GPUs are free" wait_for 30 all_free
done_testing
