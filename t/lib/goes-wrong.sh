# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Prints doc/when-it-goes-wrong.md: what users and administrators see when something goes wrong, on
# a minicluster. To be sourced behind slurm.sh, with a cluster up; t/t4071-goes-wrong.t compares.
#
# What differs from one time to the next is replaced: numbers of jobs, processes and ports, times,
# UUIDs, paths, this host's name.

told()
{
    sed -E -e "s|$cluster/etc|/etc/rgpu|g; s|$cluster|/var|g; s|$T|/home/alice|g; s|$build|/usr|g" \
        -e "s/\b$(hostname -s)\b/login1/g" \
        -e 's/20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z?/TIME/g' \
        -e 's/127\.0\.0\.1:[0-9]+/ADDRESS:7711/g' \
        -e 's/GPU-[0-9a-f]{8}-[0-9a-f-]+/GPU-UUID/g; s/\b([Jj]ob|allocation) [0-9]{1,3}\b/\1 17/g' \
        -e 's/(JobId=|release |requeue )[0-9]+/\117/g; s/worker [0-9]+/worker 4242/g' \
        -e 's/pid [0-9]+/pid 4242/g; s/waited [0-9]+ s/waited 9 s/g' \
        -e 's/\bcn[12]\b/cn1/g; s/^TIME\.[^ ]* //' |
        grep -vE '^(srun|salloc): (job 17 (queued|has been)|Granted|Relinquishing|Nodes|Pending)' |
        grep -vE '^salloc: (Waiting for resource|Job allocation)' |
        grep -vE 'Force Terminated|launch/slurm|Job step aborted|task 0: Exited|StepId|^$' |
        grep -vE 'execve|limited by v[12]'
}

# see COMMAND LINE: the command as a user types it, and what he sees of it.
see()
{
    printf '\n'
    told <<< "$ $1" | sed 's/^/    /'
    (cd "$T" && PATH=$build/sbin:$PATH timeout 90 bash -c "$1" 2>&1; true) | told |
        sed 's/^/    /'
}
text() { printf '\n%s\n' "$*"; }
title() { printf '\n## %s\n' "$*"; }
note() { printf '\n'; note_of "$1" | told | sed 's/^/    AdminComment=/'; }
steady=$build/cuda/steady-static
nobody() { [ -z "$(squeue -h -o %i)" ] && [ "$(sold)" = 0 ]; }
end_all()
{
    squeue -h -o %i | xargs -r scancel 2> /dev/null
    wait_for 60 all_free > /dev/null
    wait_for 60 nobody > /dev/null
}
rgpu slurm sync > /dev/null
sed -i '/^\[slurm\]/a lost_after = "5s"' "$RGPU_CONF"

cat <<'END'
# When it goes wrong

For users and administrators: what is seen when a job does not get its GPUs, or loses them. This
page is the transcript of a program (`t/lib/goes-wrong.sh`) on Slurm 22.05; numbers, times and paths
are replaced. On Slurm 24.11 it is the same, but that Slurm itself refuses `--cpus-per-gpu`.
[slurm.md](slurm.md) says what happens, [admin.md](admin.md) what to look at.
END

title "What is refused at submit"
text "More than the pool has:"
see "srun --gres=rgpu:9 ./train"
see "srun -N 5 --gres=rgpu:2 ./train"
see "srun --gres=rgpu:1 --rgpu-mem=1000G ./train"
text "What no server has:"
see "srun --gres=rgpu:a100:1 ./train"
see "srun --gres=rgpu:1 --rgpu-server=gpu9 ./train"
see "srun --gres=rgpu:1 --rgpu-uuid=GPU-none ./train"
see "srun --gres=rgpu:1 --rgpu-name=H200 --rgpu-min-memory=80G ./train"
see "srun --gres=rgpu:3 --rgpu-server=gpu1 ./train"
text "What is typed wrong:"
see "srun --gres=rgpu:one ./train"
see "srun --gres=rgpu:1 --rgpu-mem=8 ./train"
see "srun --gres=rgpu:1 --rgpu-share=0 ./train"
see "srun --gres=rgpu:1 --rgpu-share=0-100 ./train"
see "srun --gres=rgpu:1 --rgpu-min-cc=9 ./train"
see "srun --gres=rgpu:1 --rgpu-bind=two ./train"
see "srun --licenses=rgpu:100 ./train"
text "Slurm's own options for GPUs, where no node has any:"
see "srun --gpus=2 ./train"
see "srun --gres=gpu:1 ./train"
see "srun -N 2 -G 3 ./train"
see "srun --gres=rgpu:1 --cpus-per-gpu=4 ./train"
see "srun --gres=rgpu:1 --gpu-bind=closest ./train"

title "What is only remarked on"
see "srun --rgpu-share=50 true"
see "salloc --gres=rgpu:1 true"
see "srun --gres=rgpu:1 srun --overlap -n 1 --rgpu-share=50 true"
step='CUDA_VISIBLE_DEVICES=3 srun --overlap -n 1 true'
see "CUDA_VISIBLE_DEVICES=0 srun --gres=rgpu:1 sh -c '$step'"
see "MASTER_ADDR=node7.invalid srun --gres=rgpu:1 true"
text "With \`[slurm] gpus_mean_rgpu = true\`, of batch jobs:"
cp "$RGPU_CONF" "$T/good.conf"
sed -i '/^\[slurm\]/a gpus_mean_rgpu = true' "$RGPU_CONF"
rgpu slurm sync > /dev/null
see "sbatch --gpus=2 --wrap ./train"
cp "$T/good.conf" "$RGPU_CONF"
rgpu slurm sync > /dev/null
end_all

title "A job that waits in Slurm"
text "Others have all licences, as many as there are GPUs:"
for n in 1 2; do submitted --gres=rgpu:2 -J others --wrap "$(until_file "$T/end")"; done
submitted --gres=rgpu:1 -J mine --wrap true
reason() { [ "$(job_reason "$job")" = Licenses ]; }
wait_for 30 reason > /dev/null
see "squeue --name=mine -o '%j %T %r'"
see "scontrol show lic"
end_all
text "GPUs are free, and an administrator has drained their servers:"
rgpu drain gpu1 --reason 'new fans' > /dev/null
rgpu drain gpu2 --reason 'new fans' > /dev/null
rgpu slurm sync > /dev/null
submitted --gres=rgpu:1 -J mine --wrap true
wait_for 30 reason > /dev/null
see "squeue --name=mine -o '%j %T %r'"
see "scontrol show lic"
see "rgpu list"
for server in gpu1 gpu2; do rgpu resume $server > /dev/null; done
rgpu slurm sync > /dev/null
end_all

title "A job that waits in its prolog"
text "A job has all GPUs of the only server that will do. Slurm starts the next, as licences are
free; it waits in its prolog:"
submitted --gres=rgpu:2 --rgpu-server=gpu1 --wrap "$(until_file "$T/end")"; first=$job
wait_for 30 is_state "$first" RUNNING
waits() { [[ $(note_of $((first + 1))) =~ "waits for" ]]; }
(wait_for 30 waits; touch "$T/end") > /dev/null 2>&1 &
see "srun --gres=rgpu:1 --rgpu-server=gpu1 echo it runs"
wait_for 30 all_free > /dev/null
text "A batch job has no terminal. \`scontrol show job\` says it:"
submitted --gres=rgpu:2 --rgpu-server=gpu1 --wrap "$(until_file "$T/end2")"; first=$job
wait_for 30 is_state "$first" RUNNING
submitted --gres=rgpu:1 --rgpu-server=gpu1 --wrap true
wait_for 30 waits > /dev/null
note "$job"
touch "$T/end2"
wait_for 60 is_state "$job" COMPLETED > /dev/null
note "$job"
wait_for 30 all_free > /dev/null
text "It waits no longer than \`[slurm] wait\`, here three seconds. A batch job is requeued then:"
sed -i '/^\[slurm\]/a wait = "3s"' "$RGPU_CONF"
submitted --gres=rgpu:2 --rgpu-server=gpu1 --wrap "$(until_file "$T/end3")"; first=$job
wait_for 30 is_state "$first" RUNNING
see "srun --gres=rgpu:1 --rgpu-server=gpu1 ./train"
submitted --gres=rgpu:1 --rgpu-server=gpu1 --wrap true
gave_up() { [[ $(note_of "$job") =~ "no GPUs within" ]]; }
wait_for 30 gave_up > /dev/null
note "$job"
end_all
cp "$T/good.conf" "$RGPU_CONF"
text "No server answers:"
for name in gpu1 gpu2; do crash rgpud.$name; done
see "srun --gres=rgpu:1 ./train"
see "rgpu list"
no_job() { [ -z "$(squeue -h -o %i)" ]; }
wait_for 60 no_job > /dev/null
see "rgpu slurm check"
for name in gpu1 gpu2; do start_rgpud $name; done
wait_for 30 all_free > /dev/null

title "A job that can never be served"
text "Slurm's controller has no snapshot of the pool, so that only the servers can tell. Of srun:"
mv "$cluster/run/pool.snapshot" "$T/snapshot"
see "srun --gres=rgpu:1 --rgpu-uuid=GPU-none ./train"
text "Of salloc:"
see "salloc --gres=rgpu:1 --rgpu-uuid=GPU-none true"
text "A batch job is held. \`scontrol show job\` says why:"
submitted --gres=rgpu:1 --rgpu-uuid=GPU-none --wrap true
is_held() { [[ "$(job_state "$job") $(job_reason "$job")" =~ ^PENDING.*eld ]]; }
wait_for 60 is_held > /dev/null
note "$job"
scancel "$job"
text "So is one that meets an error in the controller's rgpu.conf:"
echo 'waait = "1m"' >> "$RGPU_CONF"
submitted --gres=rgpu:1 --wrap true
wait_for 60 is_held > /dev/null
note "$job"
cp "$T/good.conf" "$RGPU_CONF"
scancel "$job"
mv "$T/snapshot" "$cluster/run/pool.snapshot"

title "A job whose node has not got its GPUs"
text "slurmd left out its Prolog, and the node cannot fetch the job's leases by itself:"
plugstack=$cluster/etc/plugstack.conf.d/rgpu.conf
prolog=$cluster/libexec/rgpu/prolog
cp "$plugstack" "$T/plugstack"
cp -p "$prolog" "$T/prolog"
sed -i 's| rgpu=[^ ]*| rgpu=/bin/false|' "$plugstack"
printf '#!/bin/sh\n' > "$prolog"
submitted --gres=rgpu:1 -o "$T/out" --wrap true
wait_for 60 is_state "$job" FAILED > /dev/null
printf '\n'
told < "$T/out" | sed 's/^/    /'
cp -p "$T/prolog" "$prolog"
text "rgpu is not installed there, or not where plugstack.conf says:"
sed -i 's| interposer=[^ ]*| interposer=/opt/rgpu/lib|' "$plugstack"
see "srun --gres=rgpu:1 ./train"
cp "$T/plugstack" "$plugstack"
end_all

title "A job that loses its GPUs"
# loses WHAT COMMAND...: a job runs, the command is run, and what the job's program then says is
# shown, and its comment.
loses()
{
    text "$1"
    shift
    rm -f "$T/mark" "$T/err"
    submitted $options --gres=rgpu:1 --rgpu-server=gpu1 -o /dev/null -e "$T/err" --wrap \
        "exec $steady $T/mark"
    wait_for 60 [ -e "$T/mark" ] > /dev/null
    "$@" > /dev/null 2>&1
    if [ -n "$options" ]; then
        wait_for 90 is_state "$job" FAILED > /dev/null
    else
        wait_for 60 noted > /dev/null
    fi
    printf '\n'
    grep rgpu "$T/err" | told | sed 's/^/    /'
    [ -n "$options" ] || note "$job"
    end_all
}
noted() { [[ $(note_of "$job") =~ lost ]] && [ "$(job_state "$job")" = PENDING ]; }
options=--no-requeue
loses "An administrator ends its lease:" eval 'rgpu release --job $job'
options=
loses "Its worker on the server dies. The job is requeued:" eval 'kill -9 $(workers)'
dies() { crash rgpud.gpu1; kill -9 $(workers); }
loses "The server dies. The job is requeued, and starts on another:" dies
answers() { rgpu list | grep -q '^gpu1'; }
# It comes back with the lease of the job that lost it.
back_again()
{
    start_rgpud gpu1
    wait_for 30 answers
    rgpu release --job "$job"
    wait_for 30 all_free
}
back_again > /dev/null 2>&1
text "A job of srun or salloc, and one with \`--no-requeue\`, ends as its program does. Slurm takes
no AdminComment of a job that has ended: only \`sacct -o AdminComment\` has the cause, where there
is a slurmdbd. syslog on the controller has it in any case."
text "One whose program does not look at its errors runs on. \`rgpu slurm sync\` tells it:"
start hangs sh -c "srun --gres=rgpu:1 --rgpu-server=gpu1 -J hangs \
    sh -c 'touch $T/begun; sleep 600' > $T/hangs 2>&1"
wait_for 30 [ -e "$T/begun" ] > /dev/null
crash rgpud.gpu1
rgpu slurm sync > /dev/null 2>&1
was_told() { rgpu slurm sync > /dev/null 2>&1; grep -q 'runs on' "$T/hangs"; }
wait_for 60 was_told > /dev/null
printf '\n'
grep 'runs on' "$T/hangs" | told | sed 's/^/    /'
job=$(squeue -h -n hangs -o %i)
scancel "$job"
back_again > /dev/null 2>&1
text "A job whose worker dies in its second run, too, is held, as it may be the cause:"
for run in 1 2; do
    rm -f "$T/mark"
    if [ $run = 1 ]; then
        submitted --gres=rgpu:1 -o /dev/null --wrap "exec $steady $T/mark"
    else
        start_now "$job"
    fi
    wait_for 60 [ -e "$T/mark" ] > /dev/null
    workers | xargs -r kill -9
    ended_again() { [ "$(restarts "$job")" = "$run" ] && [ "$(job_state "$job")" = PENDING ]; }
    wait_for 60 ended_again > /dev/null
    wait_for 60 noted > /dev/null
done
wait_for 60 is_held > /dev/null
note "$job"
end_all

title "Types of GPUs"
minicluster down > "$T/down.log" 2>&1
minicluster up --types a100,h100 > "$T/up2.log" 2>&1
rgpu slurm sync > /dev/null
text "Slurm sells GPUs by type. All of one are in use, and the other is free:"
submitted --gres=rgpu:a100:2 --wrap "$(until_file "$T/end4")"; first=$job
wait_for 30 is_state "$first" RUNNING
submitted --gres=rgpu:a100:1 -J mine --wrap true
wait_for 30 reason > /dev/null
see "squeue --name=mine -o '%j %T %r %W'"
see "scontrol show lic"
see "srun --gres=rgpu:h100:1 echo it runs"
touch "$T/end4"
wait_for 60 is_state "$job" COMPLETED > /dev/null
see "srun --gres=rgpu:A100:1 ./train"
see "srun --gres=rgpu:a100:1,rgpu:h100:1 ./train"

title "A GPU host whose driver is broken"
text "rgpud makes no software GPUs of its own accord (\`driver = \"nvidia\"\` is the default):"
sed 's/^driver = .*/driver = "nvidia"/; /softgpu/d' "$cluster/etc/gpu1.conf" \
    > "$cluster/etc/rgpud.conf"
see "rgpud --config $cluster/etc/rgpud.conf"

title "Outside Slurm"
see "rgpu run -n 9 -- ./train"
see "rgpu run --server gpu9 -- ./train"
see "rgpu release --job 99999"
see "rgpu list first second"
