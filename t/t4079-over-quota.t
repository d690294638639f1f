#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Plain sbatch over its account's quota uses GPUs that nobody wants, by itself; their owner gets
# them within ten seconds, and the job is back in its own QOS ([slurm] over_quota). Two accounts
# with two of four GPUs each.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
for program in slurmdbd mariadbd; do
    PATH=$PATH:/usr/sbin command -v $program > /dev/null || skip_all "$program is not installed"
done
cluster_up --quotas
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"
try 60 sh "$root/etc/quotas.sh" a=2 b=2 c=0
is "$rc" 0 "quotas.sh makes accounts and QOS" || diag "$err"
for account in a b c; do sacctmgr -i add user root account=$account > /dev/null; done
sacctmgr -i modify user root where account=c set qos=c > "$T/modify" 2>&1 ||
    diag "$(cat "$T/modify")"

qos_of() { squeue -h -j "$1" -o %q; }
# A job that runs until it gets SIGTERM: job NAME ACCOUNT ARGS..., sets $NAME to its number.
job()
{
    local name=$1 account=$2
    shift 2
    submitted -A "$account" --gres=rgpu:1 --open-mode=append "$@" --wrap 'exec sleep 1000'
    eval "$name=$job"
}
waits_for() { [ "$(job_reason "$1")" = "$2" ] || { squeue -o '%i %q %T %r %W'; return 1; }; }
runs_in() { [ "$(job_state "$1") $(qos_of "$1")" = "RUNNING $2" ] ||
    { squeue -o '%i %q %T %r %W'; cat "$T/timer.log"; return 1; }; }
is_back() { [ "$(job_state "$1") $(qos_of "$1")" = "PENDING $2" ] ||
    { squeue -o '%i %q %T %r %W'; cat "$T/timer.log"; return 1; }; }
since() { awk "BEGIN {printf \"%.1f\", $EPOCHREALTIME - $1}"; }
touch "$T/timer.log"

job own a --gres=rgpu:2
ok "account a uses its quota" wait_for 60 runs_in "$own" a
job over a
ok "another job of a waits for the limit of its QOS" wait_for 60 waits_for "$over" QOSGrpLicense

# --- without the key

try 20 rgpu slurm preempt
is "$rc $out$err" "0 " "where the key is off, rgpu slurm preempt does nothing"
ok "... and the job waits" is_back "$over" a
try 20 rgpu why "$over"
like "$rc $out" "^0 .*the jobs of its QOS, a, have all GPUs that they may have together" "... why"
unlike "$out" "starts beside them" "... and nothing else is promised"
try 60 rgpu slurm check
unlike "$out" over_quota "rgpu slurm check misses nothing"

# --- with it

sed -i 's/^\[slurm\]$/&\nover_quota = true/' "$cluster/etc/rgpu.conf"
try 60 rgpu slurm check
like "$rc $out" "^3 .*over_quota: rgpu slurm preempt: it has not run yet" \
    "rgpu slurm check says that no timer runs it"
try 20 rgpu why "$over"
like "$out" "it starts beside them as soon as enough GPUs are idle" "rgpu why promises it"
try 20 rgpu slurm preempt --dry-run
is "$rc $out" "0 job $over (QOS a) would be moved to QOS spare" "--dry-run says what would be done"
ok "... and does not do it" is_back "$over" a

# What is not to be moved.
job fixed a --no-requeue
job alien c
job own_will a --qos=spare --hold
for name in fixed alien; do
    ok "a job waits ($name)" wait_for 60 waits_for "${!name}" QOSGrpLicense
done
try 20 rgpu why "$fixed"
like "$out" "idle ones are for batch jobs that Slurm may requeue" "rgpu why says who is not moved"

# rgpu-preempt.timer runs it each three seconds, slept or not.
timer() { while :; do rgpu slurm preempt; sleep 3; done; }
begin=$EPOCHREALTIME
start timer timer
ok "plain sbatch over the quota starts by itself, where GPUs are idle" \
    wait_for 60 runs_in "$over" spare
note "after $(since "$begin") s"
job tasks a --array=1-3
ok "... as does a task of an array" wait_for 60 runs_in "${tasks}_1" spare
rest_waits() { [ "$(squeue -h -t PENDING -j "$tasks" -o '%i %q')" = "${tasks}_[2-3] a" ] ||
    { squeue -o '%i %q %T %r %W'; return 1; }; }
ok "... the others wait within the quota, as no GPU is left" wait_for 60 rest_waits
like "$(note_of "$over")" '^rgpu: uses what is over, in place of QOS a since 20[0-9TZ:-]+$' \
    "the AdminComment says where it is from"
try 20 rgpu why "$over"
like "$rc $out" '^3 .*RUNNING.*it uses what is over of the pool \(QOS spare, in place of its own' \
    "... and rgpu why that it may be requeued"
try 60 rgpu slurm check
unlike "$out" over_quota "rgpu slurm check has nothing to say of it now"
ok "a job that may not be requeued is not moved" is_back "$fixed" a
ok "... nor one whose user may not use spare" is_back "$alien" c

ctld=$(cat "$cluster/pid/slurmctld")
kill "$ctld"
wait_for 20 tap_gone "$ctld"
daemon slurmctld
ok "slurmctld restarts" wait_for 60 runs_in "$over" spare
like "$(note_of "$over")" 'in place of QOS a since' "... and the job keeps its note"

# --- the owner

begin=$EPOCHREALTIME
job owners b --gres=rgpu:2
ok "b wants its two GPUs, and has them" wait_for 60 runs_in "$owners" b
seconds=$(since "$begin")
# 8.6 to 9.7 s on a machine with nothing else to do; other tests may run beside this one.
ok "... within twenty seconds: $seconds s" awk "BEGIN {exit !($seconds <= 20)}"
for name in "$over" "${tasks}_1"; do
    ok "job $name is requeued, in its own QOS" wait_for 60 is_back "$name" a
    is "$(restarts "$name")" 1 "... once"
done
is "$(note_of "$over")" "" "... and nothing is noted any more"
is "$(job_state "$own") $(qos_of "$own")" "RUNNING a" "a's own share is untouched"

# Slurm lets a requeued job rest until its credentials have expired on the node (cred_expire).
scancel "$fixed" "$alien" "${tasks}_[2-3]"
scancel "$own"
for name in "$over" "${tasks}_1"; do
    ok "a has room: job $name goes on within the quota" wait_for 90 runs_in "$name" a
done
ok "what leases hold is what Slurm has sold" wait_for 20 agree

# --- by the user's own will

scontrol release "$own_will"
ok "a job that its user has put into spare waits there" wait_for 60 waits_for "$own_will" Licenses
scancel "$owners"
ok "... starts there" wait_for 60 runs_in "$own_will" spare
is "$(note_of "$own_will")" "" "... and has no note"
unlike "$(cat "$T/timer.log")" "job $own_will" "... nobody has touched it"
unlike "$(cat "$T/timer.log")" "rgpu:" "the timer met no error"

# --- where Slurm takes back by itself what is over

if slurm_is 23.02; then
    echo "PreemptParameters=reclaim_licenses" >> "$cluster/etc/slurm.conf"
    scontrol reconfigure
    job again a
    ok "with reclaim_licenses plain sbatch still uses what is over" \
        wait_for 90 runs_in "$again" spare
    said=$(wc -l < "$T/timer.log")
    begin=$EPOCHREALTIME
    job theirs b --gres=rgpu:2
    ok "... and the owner has its GPUs" wait_for 60 runs_in "$theirs" b
    seconds=$(since "$begin")
    ok "... within twenty seconds: $seconds s" awk "BEGIN {exit !($seconds <= 20)}"
    ok "... the job over its quota is requeued, in its own QOS" wait_for 90 is_back "$again" a
    is "$(restarts "$again")" 1 "... once"
    unlike "$(tail -n "+$((said + 1))" "$T/timer.log")" "requeue|make way|rgpu:" \
        "... by Slurm, not by the timer"
else
    skip "Slurm 22.05 does not preempt for licences" 6
fi
end_jobs
done_testing
