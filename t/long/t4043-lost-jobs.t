#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A GPU server dies under jobs of all kinds: what Slurm can start again, what it cannot, and what
# rgpu.conf says of it.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/slurm.sh"
cluster_up --rgpud 'slurm_check = "1s"'
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"

. "$(dirname "$0")/../lib/lost.sh"
# A lost server is waited for as long.
configure 'lost_after = "2s"'

# --- what Slurm can and cannot start again

# Two tasks, one on each server.
submitted --array=1-2 --gres=rgpu:2 --wrap \
    "while [ ! -e $T/dead3.\$SLURM_ARRAY_TASK_ID ]; do sleep 0.1; done; exit 3"; array=$job
wait_for 30 runs "${array}_1"; wait_for 30 runs "${array}_2"
id_of() { scontrol show job "$1" | sed -n 's/^JobId=\([0-9]*\) .*/\1/p'; }
server=$(server_of "$(id_of "${array}_2")")
crash "rgpud.$server"
touch "$T/dead3.2"
ok "the task of an array whose server has died is requeued" wait_for 60 is_requeued "${array}_2"
is "$(job_state "${array}_1") $(restarts "${array}_1")" "RUNNING 0" "the other one runs on"
scancel "$array"
back "$server"
wait_for 60 all_free

part=1 gres='#SBATCH --gres=rgpu:2'
slurm_is 23.02 && part=0 gres=  # only the first part can have GPUs
printf '#!/bin/sh\n#SBATCH --gres=rgpu:2\n#SBATCH hetjob\n%s\n%s\n' "$gres" \
    "$(fails_at "$T/dead4")" > "$T/het.sh"
submitted "$T/het.sh"; het=$job
wait_for 30 runs "$het+0"; wait_for 30 runs "$((het + 1))"
server=$(server_of "$((het + part))")
crash "rgpud.$server"
touch "$T/dead4"
ok "a heterogeneous job is requeued where the server of part $part has died" wait_for 60 \
    is_requeued "$het+0"
ok "all of it" wait_for 30 is_requeued "$((het + 1))"
wait_for 20 has_note "$het+0"
like "$(note_of "$het+0")" "lost server $server .*requeued; avoids $server until" \
    "the comment stands at its leader"
scancel "$het"
back "$server"
wait_for 60 all_free

submitted -N 2 --gres=rgpu:2 --wrap "$(fails_at "$T/dead5")"; both=$job
wait_for 30 runs "$both"
crash rgpud.gpu2
touch "$T/dead5"
ok "so is a job on two nodes with a server for each" wait_for 60 is_requeued "$both"
wait_for 20 has_note "$both"
like "$(note_of "$both")" "lost server gpu2 .*; avoids gpu2 until [^,]*$" \
    "which avoids the dead one alone"
back gpu2
scancel "$both"
wait_for 60 all_free

submitted --no-requeue --gres=rgpu:1 --wrap "$(fails_at "$T/dead6")"; never=$job
wait_for 30 runs "$never"
server=$(server_of "$never")
crash "rgpud.$server"
touch "$T/dead6"
ok "a job of --no-requeue fails" wait_for 60 is_state "$never" FAILED
start srun srun --gres=rgpu:1 sh -c "touch $T/srun; $(fails_at "$T/dead7")"
srun=$pid
wait_for 30 test -e "$T/srun"
crash "rgpud.$(other_of "$server")"
touch "$T/dead7"
ok "so does srun, which ends" wait_for 60 tap_gone "$srun"
wait "$srun"
is $? 3 "with the program's status"
start_rgpud gpu1; back gpu2
wait_for 60 all_free

# --- hold, fail, and who avoids nothing

configure 'lost_after = "2s"' 'lost_server = "hold"' 'lost_avoid = "0"'
submitted --gres=rgpu:1 --wrap "$(fails_at "$T/dead8")"; held=$job
wait_for 30 runs "$held"
server=$(server_of "$held")
crash "rgpud.$server"
touch "$T/dead8"
ok "lost_server = \"hold\": the job is requeued" wait_for 60 is_requeued "$held"
wait_for 20 has_note "$held"
is "$(job_reason "$held")" "job requeued in held state" "and held"
like "$(note_of "$held")" "lost server $server .*: requeued and held$" \
    "as its comment says; lost_avoid = 0: it avoids nothing"
back "$server"
is_lent() { rgpu leases | grep -q 'pid '; }
start lent rgpu run -n 1 --server "$server" -- sh -c "$(until_file "$T/lent2")"
wait_for 20 is_lent
rm "$T/dead8"
scontrol release "$held"
start_now "$held"
ok "released, it runs" wait_for 60 runs "$held"
is "$(server_of "$held")" "$server" "on the same server"
touch "$T/dead8" "$T/lent2"
wait_for 60 all_free

configure 'lost_after = "2s"' 'lost_server = "fail"'
submitted --gres=rgpu:1 --wrap "$(fails_at "$T/dead9")"; failed=$job
wait_for 30 runs "$failed"
server=$(server_of "$failed")
crash "rgpud.$server"
touch "$T/dead9"
ok "lost_server = \"fail\": it fails" wait_for 60 is_state "$failed" FAILED
is "$(restarts "$failed")" 0 "and is not requeued"
back "$server"
wait_for 60 all_free

# --- no other server could ever serve it

configure 'lost_after = "2s"'
submitted --gres=rgpu:1 --rgpu-server=gpu1 --wrap "$(fails_at "$T/dead10")"; only=$job
wait_for 30 runs "$only"
crash rgpud.gpu1
touch "$T/dead10"
ok "a job that wants this server alone is requeued, too" wait_for 60 is_requeued "$only"
wait_for 20 has_note "$only"
back gpu1
rm "$T/dead10"
start_now "$only"
ok "and gets it when it is back" wait_for 60 runs "$only"
scancel "$only"
ok "all is given back in the end" wait_for 60 all_free
# --- a job that runs on, though its server is silent, and cannot be requeued

configure 'lost_after = "1s"'
sync() { rgpu slurm sync >> "$T/sync" 2>&1; }
syncs_until() { sync; "$@"; }
start salloc salloc --gres=rgpu:1 sh -c \
    "echo \$SLURM_JOB_ID > $T/salloc.id; $(until_file "$T/salloc.end")"
salloc=$pid
wait_for 30 test -s "$T/salloc.id"
alloc=$(cat "$T/salloc.id")
server=$(server_of "$alloc")
crash "rgpud.$server"
ok "a job of salloc gets a note" wait_for 60 syncs_until has_note "$alloc"
like "$(note_of "$alloc")" "^rgpu: lost server $server .*: it cannot be requeued, and runs on$" \
    "that it runs on"
is "$(job_state "$alloc")" RUNNING "as it does"
told() { grep -q "rgpu: lost server $server" "$T/salloc.log"; }
ok "its user is told in the shell" wait_for 30 told
sync
is "$(grep -c "rgpu: lost server" "$T/salloc.log")" 1 "once"
configure 'lost_after = "1s"' 'lost_server = "fail"'
ok "lost_server = \"fail\": it is ended" wait_for 60 syncs_until is_state "$alloc" CANCELLED
like "$(note_of "$alloc")" "lost server $server .*: cancelled$" "and its comment says why"
touch "$T/salloc.end"
wait_for 30 tap_gone "$salloc"
done_testing
