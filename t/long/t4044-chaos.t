#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# slurmctld, slurmd and rgpud are killed at random under a stream of mixed jobs; whenever that
# stops, no lease is without job, no job without lease, and the licences are right.
#
# RGPU_CHAOS_SECONDS: how long, 600 unless said. RGPU_CHAOS_SEED: of what is random; a run says its
# own.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/slurm.sh"
cluster_up --rgpud 'slurm_check = "1s"'
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"
seconds=${RGPU_CHAOS_SECONDS:-600}
seed=${RGPU_CHAOS_SEED:-$RANDOM}
RANDOM=$seed
diag "seed $seed"

# What a job does: some work, a pause, some work again.
mkdir "$T/jobs"
cat > "$T/work" <<SCRIPT
#!/bin/sh
one()
{
    out=$T/jobs/\$SLURM_JOB_ID.\$SLURM_RESTART_COUNT.\$\$.\$1
    "$build/cuda/tenant-static" mode=sync us=200 seconds=0.1 > "\$out" 2>&1 &&
        echo done >> "$T/works" || echo failed
}
one 1
sleep "\$1"
one 2
SCRIPT
chmod 755 "$T/work"

# One of: a GPU, two, half of one, one on each node, an array, two steps one after the other, what
# cannot be requeued.
submit()
{
    local pause=$((RANDOM % 4)).$((RANDOM % 10)) what
    case $((RANDOM % 8)) in
        0 | 1) what=(--gres=rgpu:1) ;;
        2) what=(--gres=rgpu:2) ;;
        3) what=(--gres=rgpu:1 --rgpu-share=50 --rgpu-mem=64M) ;;
        4) what=(-N 2 --gres=rgpu:1) ;;
        5) what=(-a 1-3 --gres=rgpu:1) ;;
        6) sbatch -o "$T/jobs/out.%j" --gres=rgpu:1 --wrap \
            "srun $T/work $pause; srun $T/work 0"; return ;;
        7) what=(--no-requeue --gres=rgpu:1) ;;
    esac
    sbatch -o "$T/jobs/out.%j" "${what[@]}" --wrap "exec $T/work $pause"
}

# Keeps a queue of some length, cancels a job now and then, and starts one again.
stream()
{
    local queue
    while [ ! -e "$T/stop" ]; do
        queue=$(squeue -h -o %i 2> /dev/null) || { sleep 0.3; continue; }
        [ "$(wc -w <<< "$queue")" -ge 8 ] || submit >> "$T/submitted" 2>> "$T/submit.err"
        case $((RANDOM % 20)) in
            0) scancel "$(shuf -n 1 <<< "$queue")" ;;
            1) scontrol requeue "$(squeue -h -t R -o %i | shuf -n 1)" ;;
        esac >> "$T/stream.log" 2>&1
        sleep 0.3
    done
}

declare -A killed
names=(slurmctld slurmd.cn1 slurmd.cn2 rgpud.gpu1 rgpud.gpu2)
start()
{
    case $1 in
        slurmctld) daemon slurmctld ;;
        slurmd.*) daemon slurmd -N "${1#*.}" ;;
        rgpud.*) start_rgpud "${1#*.}"; disown ;;
    esac
}
kill_one()
{
    local name=${names[RANDOM % 5]}
    crash "$name" 2>> "$T/start.log"
    sleep "$((RANDOM % 3)).$((RANDOM % 10))"
    start "$name" >> "$T/start.log" 2>&1
    killed[$name]=$((${killed[$name]:-0} + 1))
}

# Slurm itself drains a node when a slurmctld that was killed starts a job again of whose first run
# it knows nothing more.
resumed=0
resume()
{
    local node
    for node in $(sinfo -h -N -o '%N|%E' | sed -n 's/|Duplicate jobid.*//p'); do
        scontrol update node="$node" state=resume && resumed=$((resumed + 1))
    done
}
answers()
{
    resume
    [ "$(scontrol ping | grep -c UP)" = 1 ] &&
        [ "$(sinfo -h -N -o %T | grep -cE '^(idle|mixed|allocated|completing)$')" = 2 ] &&
        rgpu slurm sync --quiet
}
agrees() { rgpu slurm check > "$T/check" 2>&1; }
# And it holds a new job that a node takes for one of the same number, which such a slurmctld has
# forgotten.
release_copies()
{
    local id
    for id in $(squeue -h -t PD -o '%i|%r' | sed -n 's/|launch failed requeued held//p'); do
        grep -q "Job $id already running, do not launch second copy" "$cluster"/log/slurmd.* &&
            scontrol release "$id" && diag "Slurm held job $id as a copy; it is released"
    done
    true
}
nothing_left()
{
    release_copies
    [ -z "$(squeue -h -o %i)" ] && all_free && [ "$(held) $(sold)" = "0 0" ]
}
(RANDOM=$((seed + 1)) && stream) &
streamer=$!
# What the timer does on a site, more often.
while [ ! -e "$T/stop" ]; do rgpu slurm sync --quiet 2>> "$T/sync.err"; sleep 1; done &
tap_started+=("$streamer" $!)

# Four rounds; after each all daemons run, jobs come and go as before, and all must agree once.
for round in 1 2 3 4; do
    end=$((SECONDS + seconds / 4))
    while [ $SECONDS -lt $end ]; do
        kill_one
        sleep "$((RANDOM % 3)).$((RANDOM % 10))"
    done
    ok "round $round: all daemons answer" wait_for 120 answers ||
        diag "$(tail -n 20 "$T/start.log"; sinfo -N; sinfo -R)"
    ok "... and Slurm and the pool agree" wait_for 180 agrees || diag "$(cat "$T/check")"
done
touch "$T/stop"
wait "$streamer"
diag "killed: $(for name in "${!killed[@]}"; do echo "$name ${killed[$name]}"; done | sort |
    paste -sd,); $resumed nodes that Slurm drained; $(wc -l < "$T/submitted") submissions, $(wc \
    -l < "$T/works") pieces of work done, $(cat "$T"/jobs/out.* 2>/dev/null |
    grep -c failed) failed"
ok "the queue empties, every GPU is free, and no licence is in use" wait_for 300 nothing_left ||
    diag "$(squeue; rgpu list; scontrol show lic)"
rgpu slurm sync --quiet  # the loop above has ended
ok "then Slurm and the pool agree" agrees || diag "$(cat "$T/check")"
ok "no program found GPUs of two servers in its lease file" sh -c \
    '! grep -rq "names 2 servers" "$1"' sh "$T/jobs"
ok "no batch script began without its job's GPUs" sh -c \
    '! grep -rq cudaErrorInsufficientDriver "$1"' sh "$T/jobs"
ok "jobs ran all the time" [ "$(wc -l < "$T/works")" -ge $((seconds / 2)) ]
done_testing
