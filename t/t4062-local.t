#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A node's own GPUs: in the pool while rgpu lend holds them, and first for the jobs of that node
# (local_first). gpu1 is the server of cn1, gpu2 is elsewhere.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up --lend
unset LD_LIBRARY_PATH RGPU_LEASE CUDA_VISIBLE_DEVICES RGPU_TRANSPORT
[ "$(rgpu list | tail -n 1)" = "2 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"

reserved() { scontrol -o show lic | sed -n 's/.*LicenseName=rgpu .* Reserved=\([0-9]*\) .*/\1/p'; }
synced() { rgpu slurm sync --quiet; reserved; }
# GPU 0 of gpu1 is offered; GPU 1 never is.
lent() { rgpu list > "$T/list"; grep '^gpu1 *0' "$T/list" | grep -vq 'not lent' ||
    { cat "$T/list"; false; }; }
not_lent() { rgpu list > "$T/list"; grep -q '^gpu1 *0 .*\[drained: not lent\]' "$T/list" ||
    { cat "$T/list"; false; }; }
# The server that a job of srun with these options gets.
server() { try 60 srun "$@" sh -c 'grep -o "\"name\": \"gpu[12]\"" "$RGPU_LEASE"'; }

# --- not lent

ok "what is not lent is not offered, and rgpu list says so" not_lent
is "$(synced)" 200 "... nor sold by Slurm"
server -w cn1 --gres=rgpu:1
is "$rc $out" '0 "name": "gpu2"' "a job on that node gets a GPU elsewhere" || diag "$err"
try 20 rgpu lend --server gpu1
like "$rc $err" '^2 .*which GPUs\? .*--gres=gpu:N' \
    "outside a job rgpu lend wants to know which GPUs"
try 20 rgpu lend --server gpu1 0 7
like "$rc $err" '^1 .*has no GPU 7' "... that are there"
try 20 rgpu lend --server gpu2 0
like "$rc $err" '^1 .*lend = "jobs"' "... of a server that may lend them"
try 20 rgpu lend 0
like "$rc $err" "^1 .*on node .*node = \"" \
    "... and which server is here, where rgpu.conf does not say"
as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
chmod 755 "$T" "$cluster"
if as_nobody test -x "$build/bin/rgpu"; then
    try 20 setpriv --reuid=65534 --regid=65534 --clear-groups "$build/bin/rgpu" lend --server gpu1 0
    like "$rc $err" '^1 .*only root and \[auth\] admins lend' "... and who may"
else
    skip "user nobody cannot reach $build"
fi

# --- lent by a job of Slurm's

submitted -p lend -w cn1 --gres=gpu:1 -o "$T/lend" --open-mode=append --wrap \
    'exec rgpu lend --grace 1s'; lender=$job
ok "a job lends the GPU that Slurm gave it" wait_for 60 lent
like "$(cat "$T/list")" 'gpu1 +1 .*\[drained: not lent\]' "... that one alone"
like "$(cat "$T/lend")" "gpu1: GPU 0 \(rgpu software GPU, GPU-.*\) is lent to the pool" \
    "... and says which"
like "$(cat "$cluster/log/rgpud.gpu1")" "1 GPU is lent by uid 0, job $lender on cn1" \
    "rgpud knows by whom"
is "$(synced)" 100 "the pool has one GPU more to sell"
try 20 rgpu lend --server gpu1 0
like "$rc $err" "^1 .*GPU 0 is lent already, by job $lender on cn1" "nobody else lends it"

server -w cn1 --gres=rgpu:2
is "$rc $out" '0 "name": "gpu2"' \
    "where the node's own are too few the job gets all of its GPUs elsewhere" || diag "$err"
# Half a GPU of gpu2 is held: for another half it is the better fit.
start half rgpu run -n 1 -p 0.5 --server gpu2 -- sh -c "touch $T/half; $(until_file "$T/half.end")"
wait_for 30 test -e "$T/half"
server -w cn2 --gres=rgpu:1 --rgpu-share=50
is "$rc $out" '0 "name": "gpu2"' "a job on another node gets what fits best" || diag "$err"
server -w cn1 --gres=rgpu:1 --rgpu-share=50
is "$rc $out" '0 "name": "gpu1"' "a job on this node gets its own GPU" || diag "$err"
touch "$T/half.end"
wait "$pid"
try 60 srun -w cn1 --gres=rgpu:1 --export=ALL,RGPU_TRANSPORT=shm python3 "$py/use_gpu_until.py" \
    "$T/begun.1" /
is "$rc $out" "0 used to the end" "... through shared memory" || diag "$err"

# --- preempted

submitted -w cn1 --gres=rgpu:1 -o "$T/user" --wrap \
    "exec python3 $py/use_gpu_until.py $T/begun $T/never"; user=$job
ok "a program uses it" wait_for 60 test -e "$T/begun"
is "$(server_of "$user")" gpu1 "... that one"
try 120 srun -w cn1 --gres=gpu:1 echo mine
is "$rc $out" "0 mine" \
    "a job that wants the node's GPU as gres/gpu preempts the one that lends it" || diag "$err"
like "$(job_state "$lender") $(job_reason "$lender")" 'PENDING BeginTime' "... which Slurm requeues"
ok "it is not lent any more" not_lent
like "$(cat "$T/lend")" 'withdrawing 1 GPU($|[^s])' "... as it said"
lost()
{
    note_of "$user" | grep -q 'lost GPUs of server gpu1, whose own host needs them: requeued'
}
ok "the program has lost it after the grace, and its job is requeued with the reason" wait_for 60 \
    lost
unlike "$(note_of "$user")" 'avoid' "... and may come back to that server"
unlike "$(cat "$T/user")" 'used to the end' "... it did not get to its end"
scancel "$user" "$lender"
wait_for 30 is_state "$lender" CANCELLED
is "$(synced)" 200 "Slurm sells what is left"

# --- a grace that is long enough, and rgpud started again

try 20 rgpu lend --server gpu1 --grace 25h 0
is "$rc $err" "2 rgpu: --grace: 25h is too long; 1d is the most" "a grace has a limit"
start lend rgpu lend --server gpu1 --grace 10m 0; lend=$pid
ok "lent without Slurm" wait_for 60 lent
gpu=$(rgpu list --json | json_value 'j["servers"][0]["gpus"][0]["uuid"]')
start use rgpu run --uuid "$gpu" -- python3 "$py/use_gpu_until.py" "$T/begun.2" "$T/end.2"; use=$pid
ok "a program uses it" wait_for 60 test -e "$T/begun.2"
crash rgpud.gpu1
start_rgpud gpu1
ok "an rgpud that was started again is told that it is lent" wait_for 60 lent
kill -TERM "$lend"
ok "withdrawn: nothing of it is offered" wait_for 60 not_lent
like "$(grep '^gpu1 *0' "$T/list")" 'root: pid' "... who has it keeps it"
ok "... the lender waits" kill -0 "$lend"
touch "$T/end.2"
rc=0; wait "$use" || rc=$?
is "$rc $(tail -n 1 "$T/use.log")" "0 used to the end" "the program gets to its end"
rc=0; wait "$lend" || rc=$?
is "$rc" 0 "... and then the lender ends" || diag "$(cat "$T/lend.log")"

# --- kill -9

start lend rgpu lend --server gpu1 --grace 0 0; lend=$pid
wait_for 60 lent
start use rgpu run --uuid "$gpu" -- python3 "$py/use_gpu_until.py" "$T/begun.3" "$T/never"; use=$pid
ok "lent again, and used" wait_for 60 test -e "$T/begun.3"
kill -9 "$lend"
ok "whoever lent it is killed: it is withdrawn" wait_for 60 not_lent
rc=0; wait "$use" || rc=$?
like "$rc $(cat "$T/use.log")" '^[1-9].*error [0-9]' "... and with no grace the program has lost it"
none_held()
{
    rgpu list | grep -q '^2 of 4 GPUs free' && [ "$(rgpu leases --json | grep -c '"id"')" = 0 ] &&
        [ -z "$(workers)" ]
}
ok "nothing is left" wait_for 60 none_held
done_testing
