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
        -e 's/GPU-[0-9a-f]{8}-[0-9a-f-]+/GPU-UUID/g; s/\b([Jj]ob) [0-9]{1,3}\b/\1 17/g' \
        -e 's/(JobId=|release |requeue )[0-9]+/\117/g; s/worker [0-9]+/worker 4242/g' \
        -e 's/pid [0-9]+/pid 4242/g; s/waited [0-9]+ s/waited 9 s/g' \
        -e 's/\bcn[12]\b/cn1/g' |
        grep -vE '^(srun|salloc): (job 17 (queued|has been)|Granted|Relinquishing|Nodes|Pending)' |
        grep -vE '^salloc: (Waiting for resource|Job allocation)' |
        grep -vE 'Force Terminated|launch/slurm|Job step aborted|task 0: Exited|StepId|^$'
}

# see COMMAND LINE: the command as a user types it, and what he sees of it.
see()
{
    printf '\n    $ %s\n' "$1"
    { timeout 90 bash -c "$1" 2>&1; true; } | told | sed 's/^/    /'
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
are replaced. [slurm.md](slurm.md) says what happens, [admin.md](admin.md) what to look at.
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
text "What is typed wrong:"
see "srun --gres=rgpu:1 --rgpu-mem=8 ./train"
see "srun --gres=rgpu:1 --rgpu-share=0 ./train"
see "srun --licenses=rgpu:100 ./train"
text "Slurm's own options for GPUs, where no node has any:"
see "srun --gpus=2 ./train"
see "srun --gres=rgpu:1 --cpus-per-gpu=4 ./train"

title "What is only remarked on"
see "srun --rgpu-share=50 true"
see "salloc --gres=rgpu:1 true"
step='CUDA_VISIBLE_DEVICES=3 srun --overlap -n 1 true'
see "CUDA_VISIBLE_DEVICES=0 srun --gres=rgpu:1 sh -c '$step'"
see "MASTER_ADDR=node7.invalid srun --gres=rgpu:1 true"

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

title "A job that can never be served"
text "Slurm's controller has no snapshot of the pool, so that only the servers can tell. Of srun:"
mv "$cluster/run/pool.snapshot" "$T/snapshot"
see "srun --gres=rgpu:1 --rgpu-uuid=GPU-none ./train"
text "A batch job is held. \`scontrol show job\` says why:"
submitted --gres=rgpu:1 --rgpu-uuid=GPU-none --wrap true
is_held() { [[ "$(job_state "$job") $(job_reason "$job")" =~ ^PENDING.*eld ]]; }
wait_for 60 is_held > /dev/null
note "$job"
scancel "$job"
text "So is one that meets an error in the controller's rgpu.conf:"
cp "$RGPU_CONF" "$T/good.conf"
echo 'waait = "1m"' >> "$RGPU_CONF"
submitted --gres=rgpu:1 --wrap true
wait_for 60 is_held > /dev/null
note "$job"
cp "$T/good.conf" "$RGPU_CONF"
scancel "$job"
mv "$T/snapshot" "$cluster/run/pool.snapshot"

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
text "A job of srun or salloc, and one with \`--no-requeue\`, ends as its program does."
start_rgpud gpu1
wait_for 30 all_free > /dev/null

title "Outside Slurm"
see "rgpu run -n 9 -- ./train"
see "rgpu run --server gpu9 -- ./train"
see "rgpu release --job 99999"
see "rgpu list first second"
