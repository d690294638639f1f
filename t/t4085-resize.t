#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rgpu resize of a running Slurm job: its program goes on with another size, and its licences
# follow, at once for root, else with the next rgpu slurm sync. scontrol update says what to do.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
program=$build/cuda/resized-static
[ -x "$program" ] || skip_all "$program is not built; run make cuda"
cluster_up

licences() { squeue -h -j "$1" -o %W; }
has_licences() { [ "$(licences "$1")" = "$2" ] || { licences "$1"; false; }; }
lease_of() { rgpu leases --json | json_value "str([(g['share'], g['most'], g['memory'] >> 20) \
for l in j['leases'] if l['owner'].get('job') == '$1' for g in l['gpus']])"; }
says()
{
    # A program's first second is answered from what it was told when it connected.
    said() { grep -qE "$2" "$T/out" || { echo "$1" >&"$lines"; false; }; }
    wait_for 20 said "$1" "$2" || { tail -n 3 "$T/out"; false; }
}

mkfifo "$T/fifo"
chmod 777 "$T" "$T/fifo"
submitted -o "$T/out" --gres=rgpu:1 --wrap "exec srun --overlap $program $T/fifo"
mine=$job
ok "a job runs with a whole GPU" wait_for 30 grep -q ready "$T/out" || diag "$(cat "$T/out")"
exec {lines}> "$T/fifo"
is "$(licences "$job")" "rgpu:100" "... and has paid for it"
says memory '^total ' > /dev/null
total=$(sed -n 's/^total \([0-9]*\) .*/\1/p' "$T/out" | tail -n 1)
half=$((total / 2))
from=${EPOCHREALTIME/./}
try 20 rgpu resize "$job" --share 30-80 --mem "${half}M"
took_us=$((${EPOCHREALTIME/./} - from))
like "$rc $out" '^0 .*30-80%' "root makes it smaller" || diag "$err"
note "rgpu resize took $((took_us / 1000)) ms, with Slurm's licences"
is "$(lease_of "$job")" "[(30, 80, $half)]" "... the lease"
is "$(licences "$job")" "rgpu:30" "... and its licences, at once"
ok "... and its program" says memory "^total $half .* device $half\$"
ok "leases and licences agree" agree
try 20 rgpu slurm sync
is "$rc $(licences "$job")" "0 rgpu:30" "rgpu slurm sync leaves it" || diag "$err"

# --- what others have

submitted --gres=rgpu:1 --rgpu-share=70 --rgpu-mem=16M --rgpu-uuid="$(rgpu leases --json |
    json_value "[g['uuid'] for l in j['leases'] for g in l['gpus']][0]")" \
    --wrap "$(until_file "$T/end")"
second=$job
job=$mine
ok "another job has the rest of the GPU" wait_for 30 is_state "$second" RUNNING
try 20 rgpu resize "$job" --share 50
like "$rc $err" "^122 rgpu: .*could have 30%.*job $second on " "it grows no more than there is" ||
    diag "$out"
is "$(licences "$job") $(lease_of "$job")" "rgpu:30 [(30, 80, $half)]" "... and nothing has changed"
touch "$T/end"
ok "the other job ends" wait_for 30 is_state "$second" COMPLETED
submitted -N 1 --gres=rgpu:1 --wrap "$(until_file "$T/end2")"
submitted --gres=rgpu:2 --wrap "$(until_file "$T/end2")"
third=$job
job=$mine
ok "Slurm gives three GPUs to others" wait_for 30 is_state "$third" RUNNING
try 20 rgpu resize "$job" --share 100
is "$rc $(licences "$job")" "0 rgpu:100" "the rest of its own GPU it may have" || diag "$err"
touch "$T/end2"

# --- a user's word, and the timer's

as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
if "${as_nobody[@]}" test -x "$build/bin/rgpu"; then
    try 20 "${as_nobody[@]}" "$build/bin/rgpu" resize "$job" --share 50
    like "$rc $err" "^1 rgpu: there is no job $job that you may resize" \
        "another user may not"
    mkfifo "$T/fifo2"
    chmod 777 "$T/fifo2"
    (cd /tmp && "${as_nobody[@]}" sbatch --parsable -o "$T/out2" --gres=rgpu:1 \
        --wrap "exec srun --overlap $program $T/fifo2") > "$T/id" 2> "$T/id.err"
    own=$(cat "$T/id")
    ok "a user's job runs" wait_for 30 grep -q ready "$T/out2" ||
        diag "$(cat "$T/id.err" "$T/out2")"
    try 20 "${as_nobody[@]}" "$build/bin/rgpu" resize "$own" --share 40
    like "$rc $out" "^0 .*40%.*licences of job $own follow with the next rgpu slurm sync" \
        "he resizes it" || diag "$err"
    is "$(licences "$own")" "rgpu:100" "... his licences are as they were"
    try 30 rgpu slurm sync
    is "$(licences "$own")" "rgpu:40" "... until rgpu slurm sync" || diag "$out $err"
    like "$out" "job $own was resized: its licences are rgpu:40" "... which says so"
    ok "leases and licences agree" agree
    for what in gres=rgpu:2 licenses=rgpu:10; do
        not_ok "scontrol update $what of a running job is refused" \
            "${as_nobody[@]}" scontrol update JobId="$own" "$what"
    done
    advice() { grep -q "update refused: .*rgpu resize $own --share" "$cluster"/log/slurmctld*; }
    try 10 scontrol update JobId="$own" gres=rgpu:2
    if slurm_is 23.02; then
        like "$err" "rgpu resize $own --share" "... with what to do instead"
    else
        ok "... with what to do instead, in slurmctld's log" wait_for 10 advice
    fi
    scancel "$own"
else
    skip "user nobody cannot reach $build" 10
fi

# --- requeued, it has what it asked for

try 20 rgpu resize "$job" --share 20 --mem 32M
is "$rc $(licences "$job")" "0 rgpu:20" "smaller again" || diag "$err"
exec {lines}>&-
rm -f "$T/out"
exec {lines}<> "$T/fifo"
scontrol requeue "$job"
start_now "$job"
again() { [ "$(lease_of "$job")" = "[(100, 100, $total)]" ]; }
ok "a requeued job has what it asked for" wait_for 60 again || diag "$(lease_of "$job")"
ok "... and pays for it" wait_for 20 has_licences "$job" rgpu:100
end_jobs
done_testing
