#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Nodes that reboot, prologs that take long, and servers whose clocks are wrong.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/slurm.sh"
cluster_up --rgpud 'slurm_check = "1s"'
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"
. "$(dirname "$0")/../lib/lost.sh"

# --- a node reboots

# As on most clusters: a node that boots unasked stays away until its administrator has looked.
sed -i 's/^ReturnToService=.*/ReturnToService=1/' "$cluster/etc/slurm.conf"
scontrol reconfigure
returns() { scontrol show config | grep -q 'ReturnToService *= 1'; }
wait_for 20 returns
submitted --no-requeue -w cn1 --gres=rgpu:1 --wrap \
    "touch $T/booted; $(until_file "$T/never")"; booted=$job
wait_for 30 test -e "$T/booted"
# All of the job on the node ends at once, the watcher of its slurmstepd first: nothing there tells
# anybody.
pgrep -f "rgpu-watch .*$cluster/run/cn1/$booted/lease.json" | xargs -r kill -9
for pid in $(stepds "$booted"); do kill -9 "$pid"; done
for pid in $(grep -lsaF "RGPU_LEASE=$cluster/run/cn1/$booted/" /proc/[0-9]*/environ |
    grep -oE '[0-9]+'); do kill -9 "$pid"; done
# -b: as after a boot. Slurm compares whole seconds: one that comes in the second of the last word
# of the old slurmd is no boot.
reboots()
{
    crash slurmd.cn1
    daemon slurmd -N cn1 -b
    wait_for 5 is_state "$booted" NODE_FAIL
}
ok "a node reboots under a job: Slurm ends it" wait_for 60 reboots
ok "its lease ends with it" wait_for 60 all_free
ok "and its licences" wait_for 60 agree
scontrol update node=cn1 state=resume
node_is_idle() { [ "$(sinfo -h -n cn1 -o %T)" = idle ]; }
wait_for 60 node_is_idle

# --- a prolog that is longer than cycles of the scheduler

prolog=$cluster/libexec/rgpu/prolog-slurmctld
mv "$prolog" "$T/prolog"
printf '#!/bin/sh\necho "$SLURM_JOB_ID" >> %q\n[ "$SLURM_JOB_NAME" != slow ] || %s\nexec %q\n' \
    "$T/prologs" "$(until_file "$T/go")" "$T/prolog" > "$prolog"
chmod 755 "$prolog"
cycles() { sdiag | awk '/Total cycles:/ {print $3; exit}'; }
submitted -J slow --gres=rgpu:2 --wrap true; slow=$job
wait_for 30 is_state "$slow" CONFIGURING
start=$(cycles)
later() { [ "$(cycles)" -ge $((start + 3)) ]; }
ok "three cycles of the scheduler pass in a job's prolog" wait_for 60 later
is "$(job_state "$slow") $(sold)" "CONFIGURING 200" \
    "it is being started, and its licences are counted once"
submitted --gres=rgpu:2 --wrap true
ok "others run meanwhile" wait_for 60 is_state "$job" COMPLETED
touch "$T/go"
ok "then it runs" wait_for 60 is_state "$slow" COMPLETED
is "$(grep -cx "$slow" "$T/prologs")" 1 "after one prolog"
ok "and gives all back" wait_for 60 all_free
mv "$T/prolog" "$prolog"

# --- a server whose clock is wrong

cc -shared -fPIC -o "$T/skew.so" "$root/t/lib/clock_ahead.c" -ldl ||
    bail "the clock's library cannot be built"
submitted --gres=rgpu:2 --wrap "$(until_file "$T/skewed")"; skewed=$job
wait_for 30 runs "$skewed"
server=$(server_of "$skewed") other=$(other_of "$(server_of "$skewed")")
# Its host is an hour ahead: rgpud, and the munged that it asks.
mkdir "$T/munge"
chmod 755 "$T/munge"
LD_PRELOAD=$T/skew.so munged --key-file="$cluster/etc/munge.key" --socket="$T/munge/socket" \
    --pid-file="$T/munge/pid" \
    --log-file="$T/munge/log" --seed-file="$T/munge/seed" --force 2> "$T/munge/start" ||
    bail "$(cat "$T/munge/start")"
cleanup_do sh -c "kill \$(cat $T/munge/pid)"
crash "rgpud.$server"
cp "$cluster/etc/$server.conf" "$T/$server.conf"
sed -i "s|^munge_socket = .*|munge_socket = \"$T/munge/socket\"|" "$cluster/etc/$server.conf"
LD_PRELOAD=$T/skew.so start_rgpud "$server"
refuses() { rgpu slurm sync > "$T/sync" 2>&1; grep -q "server $server .*credential" "$T/sync"; }
ok "a server whose clock is an hour ahead takes no credential" wait_for 60 refuses ||
    diag "$(cat "$T/sync")"
configure 'lost_after = "1s"'
rgpu slurm sync > "$T/sync" 2>&1
rgpu slurm sync > "$T/sync" 2>&1
is "$(job_state "$skewed") $(restarts "$skewed")" "RUNNING 0" \
    "its job runs on: it answers, and is not lost"
like "$(cat "$T/sync")" '400 of 400 licences can be sold now' \
    "no licence is withheld that a job holds"
submitted --gres=rgpu:1 --wrap true
ok "jobs run on the other server" wait_for 60 is_state "$job" COMPLETED
try 60 rgpu health --all --server "$server"
like "$out" 'clock.*FATAL|FATAL.*clock' "rgpu health says why"
like "$out" 'set both clocks by NTP' "and what to do"
touch "$T/skewed"
ok "its job ends" wait_for 60 is_state "$skewed" COMPLETED
crash "rgpud.$server"
cp "$T/$server.conf" "$cluster/etc/$server.conf"
back "$server"
ok "its clock set right, it ends the lease that no epilog could" wait_for 60 all_free
done_testing
