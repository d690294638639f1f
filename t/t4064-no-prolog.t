#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A requeued job that comes back to its node so soon that slurmd leaves out its Prolog: its leases
# are fetched all the same. Where that fails its tasks are refused, with cause and cure.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up
unset LD_LIBRARY_PATH RGPU_LEASE
nodes=$cluster/run/cn1
in_folder() { find "$nodes/$1" -type f -printf '%f %m\n' | sort | xargs; }

cat > "$T/job" <<END
#!/bin/sh
echo "run \${SLURM_RESTART_COUNT:-0} lease \$RGPU_LEASE"
$(until_file "$T/go")
END
submitted -w cn1 --gres=rgpu:1 -o "$T/out" --open-mode=append "$T/job"
has_run() { grep -q "^run 0 lease $nodes/$job/" "$T/out"; }
ok "a job runs" wait_for 60 has_run
scontrol requeue "$job"
ok "it is requeued" wait_for 60 is_state "$job" PENDING
is "$(in_folder "$job")" "ended 444" "its node knows that it was there"

# slurmd decides by itself, and by the time, whether it runs the Prolog: here it does nothing, which
# is the same to the job.
prolog=$cluster/libexec/rgpu/prolog
mv "$prolog" "$T/prolog"
printf '#!/bin/sh\nexit 0\n' > "$prolog"
chmod 755 "$prolog"
# Not at once: slurmd takes the credential of a job that starts in the second in which its last run
# ended for that one, which was revoked.
scontrol update JobId="$job" StartTime=now+2
has_run_again() { grep -q "^run 1 lease $nodes/$job/lease.json" "$T/out"; }
ok "it comes back without a Prolog, and has its GPU all the same" wait_for 60 has_run_again
is "$(in_folder "$job")" "lease.json 400" "... and its node knows it as any other"
like "$(cat "$cluster/log/slurmd.cn1")" "job $job: slurmd left out its Prolog; its leases were \
fetched now" "... slurmd's log says what happened"
touch "$T/go"
ok "... and it ends well" wait_for 60 is_state "$job" COMPLETED
rm "$T/go"

# Where they cannot be fetched, its script does not run without its GPU.
plugstack=$cluster/etc/plugstack.conf.d/rgpu.conf
cp "$plugstack" "$T/plugstack"
sed -i 's| rgpu=[^ ]*| rgpu=/bin/false|' "$plugstack"
submitted -w cn1 --gres=rgpu:1 -o "$T/out2" --open-mode=append "$T/job"
ok "another job, whose leases cannot be fetched, ends" wait_for 60 is_state "$job" FAILED
is "$(grep -c '^run' "$T/out2")" 0 "... and its script does not run without its GPU"
told="rgpu: this job's GPUs cannot be used on cn1: its Prolog left nothing here, and its GPUs "
told+="could not be fetched without; .*requeue it \(scontrol requeue $job\)"
like "$(cat "$T/out2")" "$told" "... what was the matter, and what to do, is told"
cp "$T/plugstack" "$plugstack"

# Nor does any other job whose Prolog found no lease.
next=$((job + 1))
mkdir -p "$nodes/$next"
echo "server gpu1: no answer" > "$nodes/$next/error"
submitted -w cn1 --gres=rgpu:1 -o "$T/next" --wrap 'echo run'
ok "a batch script whose Prolog reached no server fails, too" wait_for 60 is_state "$next" FAILED
like "$(cat "$T/next")" "^[^
]*rgpu: this job's GPUs cannot be used on cn1: server gpu1: no answer" "... with the reason"
unlike "$(cat "$T/next")" '^run|
run' "... and does not run"
next=$((next + 1))
mkdir -p "$nodes/$next"
echo "server gpu1: no answer" > "$nodes/$next/error"
try 60 srun -w cn1 --gres=rgpu:1 echo run
like "$rc$out $err" "^1 .*rgpu: this job's GPUs cannot be used on cn1: server gpu1: no answer" \
    "nor does a task of srun's"
next=$((next + 1))
mkdir -p "$nodes/$next"
touch "$nodes/$next/ended"
try 60 srun -w cn1 echo run
is "$rc $out" "0 run" "a job without GPUs minds no mark of another that had its number"

# One of which the node knows nothing: slurmctld had forgotten that it was here before, or slurmd
# was killed in its Prolog.
submitted -w cn1 --gres=rgpu:1 -o "$T/next" --wrap 'echo "run $RGPU_LEASE"'
ok "a batch script of which no Prolog tells anything has its GPU all the same" wait_for 60 \
    is_state "$job" COMPLETED
is "$(cat "$T/next")" "run $nodes/$job/lease.json" "... by its own lease"
mkdir -p "$nodes/$((job + 1))"
touch "$nodes/$((job + 1))/ended"
submitted -w cn1 --gres=rgpu:1 -o "$T/next" --wrap 'echo "run $RGPU_LEASE"'
ok "so has one that was here before and of which slurmctld says that it is its first run" \
    wait_for 60 is_state "$job" COMPLETED
is "$(cat "$T/next")" "run $nodes/$job/lease.json" "... its own, too"
# slurmd kills what a Prolog leaves in its process group.
cat > "$prolog" <<END
#!/bin/sh
[ "\$SLURM_JOB_ID" = $((job + 1)) ] || exit 0
setsid sh -c '> $T/apart; $(until_file "$T/late"); exec $T/prolog' > /dev/null 2>&1 &
$(until_file "$T/apart")
END
submitted -w cn1 --gres=rgpu:1 -o "$T/next" --wrap 'echo "run $RGPU_LEASE, mark $RGPU_NODES"'
is_launched() { grep -q "Launching batch job $job for UID" "$cluster/log/slurmd.cn1"; }
ok "a script begins beside its Prolog" wait_for 60 is_launched
touch "$T/late"
ok "... and ends well" wait_for 60 is_state "$job" COMPLETED
is "$(cat "$T/next")" "run $nodes/$job/lease.json, mark " \
    "it waited for its lease file; our mark is not among its variables"
mv "$T/prolog" "$prolog"
ok "its GPU is given back" wait_for 60 all_free

# --- what the node remembers goes

mkdir "$nodes/900001" "$nodes/900002"
touch -d '1 hour ago' "$nodes/900001/ended"
touch "$nodes/900002/ended"
submitted -w cn1 --gres=rgpu:1 --wrap "$(until_file "$T/go")"
ok "another job runs" wait_for 60 test -s "$nodes/$job/lease.json"
touch "$nodes/$job/ended"
ok "... its Prolog once more" env SLURM_JOB_ID="$job" SLURM_JOB_UID=0 SLURMD_NODENAME=cn1 \
    SPANK_RGPU_NODES=1 rgpu slurm node-prolog
is "$(in_folder "$job")" "lease.json 400" "a Prolog that runs takes back that it was here"
touch "$T/go"
ok "it ends" wait_for 60 is_state "$job" COMPLETED
swept() { [ ! -e "$nodes/900001" ]; }
ok "jobs that have not been here for long are forgotten" wait_for 60 swept
is "$(in_folder 900002)" "ended 644" "... others are not"
done_testing
