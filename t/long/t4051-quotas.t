#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Guaranteed shares, as etc/quotas.conf and etc/quotas.sh set them up: two accounts with two of four
# GPUs each. What one leaves the other uses; when it is asked back, the youngest jobs over the quota
# are requeued, and go on from their checkpoints later.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/slurm.sh"
for program in slurmdbd mariadbd; do
    PATH=$PATH:/usr/sbin command -v $program > /dev/null || skip_all "$program is not installed"
done
[ -x "$build/cuda/checkpoint-static" ] ||
    skip_all "$build/cuda/checkpoint-static is not built; run make cuda"
cluster_up --quotas
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"
try 60 sh "$root/etc/quotas.sh" a=2 b=2
like "$rc $out" '^0 .*a: license/rgpu=200\|spare' "quotas.sh makes accounts and QOS"
for account in a b; do sacctmgr -i add user root account=$account > /dev/null; done

# job NAME ACCOUNT QOS: an endless one, which is given an end when it starts for the second time;
# sets $NAME to its number.
cat > "$T/script" <<END
#!/bin/sh
export CHECKPOINT_FILE=$T/kept.\$SLURM_JOB_ID
steps=100000000
[ ! -e "\$CHECKPOINT_FILE" ] || steps=\$((\$(od -An -i -N4 "\$CHECKPOINT_FILE") + 100))
exec $build/cuda/checkpoint-static \$steps
END
job()
{
    submitted -A "$2" --qos="$3" --gres=rgpu:1 --open-mode=append -o "$T/out.$1" "$T/script"
    eval "$1=$job"
}
computes() { grep -q '^computing' "$T/out.$1" || { squeue; cat "$T/out.$1"; return 1; }; }

job own1 a a
job own2 a a
job old a spare
ok "two jobs within the quota, and one over it" wait_for 60 eval \
    'computes own1 && computes own2 && computes old'
job young a spare
ok "... and another: account a has all four GPUs" wait_for 60 computes young
is "$(scontrol show job "$own1" | sed -n 's/.*TRES=.*billing=\([0-9]*\).*/\1/p' | sort -u)" 17 \
    "fair share counts a processor and a GPU"
job more a a
ok "another within its quota, which is used up, waits" wait_for 60 is_state "$more" PENDING
try 20 rgpu slurm preempt
is "$rc $out" "0 " "... and nobody has to make way for it"

# What rgpu-preempt.timer does.
timer() { rgpu slurm preempt >> "$T/preempt.log"; }
begin=$EPOCHREALTIME
job b1 b b
ok "account b asks for a GPU, and waits" is_state "$b1" PENDING
like "$(rgpu slurm preempt --dry-run)" \
    "^job $young \(QOS spare\) for job $b1 \(QOS b\) would make way$" \
    "the youngest over the quota would make way"
b1_computes() { timer; computes b1; }
ok "... and b has it" wait_for 60 b1_computes
seconds=$(awk "BEGIN {printf \"%.1f\", $EPOCHREALTIME - $begin}")
note "after $seconds s, some of which this test has waited itself"
ok "the youngest has kept its work" wait_for 60 grep -q "^interrupted: step" "$T/out.young"
is "$(job_state "$old")" RUNNING "... the older one runs on"
begin=$EPOCHREALTIME
job b2 b b
b2_computes() { timer; computes b2; }
ok "b asks for its second GPU, and has it" wait_for 60 b2_computes
note "after $(awk "BEGIN {printf \"%.1f\", $EPOCHREALTIME - $begin}") s"
ok "the older one has kept its work" wait_for 60 grep -q "^interrupted: step" "$T/out.old"
is "$(sed 's/ (QOS [a-z]*)//g' "$T/preempt.log")" "job $young for job $b1: requeued
job $old for job $b2: requeued" "nobody else had to make way"
is "$(job_state "$own1") $(job_state "$own2") $(job_state "$more")" "RUNNING RUNNING PENDING" \
    "a's own share is untouched"
ok "what leases hold is what Slurm has sold" wait_for 20 agree

scancel "$b1" "$b2"
# Slurm lets a requeued job rest until its credentials have expired on the node (cred_expire).
for name in old young; do
    ok "b is done: the $name one goes on" wait_for 60 is_state "${!name}" COMPLETED
    kept=$(sed -n 's/^interrupted: step \([0-9]*\) is kept.*/\1/p' "$T/out.$name")
    ok "... from step ${kept:-?}" grep -qx "goes on from step $kept" "$T/out.$name"
    ok "... and comes to the right end" grep -q "^right: all 4096" "$T/out.$name"
done

# One that is not from a script cannot be requeued.
scancel "$more"
start over srun -A a --qos=spare --gres=rgpu:2 sleep 600
over=$pid
four() { [ "$(sold)" = 400 ] || { squeue; return 1; }; }
ok "an srun over the quota" wait_for 60 four
job b3 b b
b3_computes() { timer; computes b3; }
ok "... makes way, too" wait_for 60 b3_computes
wait "$over"
like "$(tail -n 1 "$T/preempt.log")" "for job $b3 \(QOS b\): cancelled, as it cannot be requeued" \
    "... as a cancelled one"
end_jobs
done_testing
