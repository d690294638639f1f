#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What is counted: a quota of one type, no GPU time of a job that only waits in its prolog, and none
# of what an earlier run left on a server that died.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
for program in slurmdbd mariadbd; do
    PATH=$PATH:/usr/sbin command -v $program > /dev/null || skip_all "$program is not installed"
done
cluster_up --types a100,h100 --quotas
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"
. "$(dirname "$0")/lib/lost.sh"
configure 'lost_after = "3s"' 'lost_avoid = "1s"'

try 60 sh "$root/etc/quotas.sh" physics=4,a100=1
is "$rc" 0 "quotas.sh takes a quota by type" || diag "$out $err"
like "$(sacctmgr -n -P show qos physics format=grptres)" 'license/rgpu=400,license/rgpu_a100=100' \
    "... and Slurm has it"
try 20 sh "$root/etc/quotas.sh" physics=4,a100
like "$rc $err" '^2 quotas.sh: a100 is not TYPE=GPUS' "... and says what is none"
try 20 sh "$root/etc/quotas.sh" chemistry=1 biology
like "$rc $err" '^2 quotas.sh: biology is not ACCOUNT=GPUS' "... before it changes anything:"
is "$(sacctmgr -n -P show qos chemistry format=name)" "" "... there is none of the first then"
try 60 sh "$root/etc/quotas.sh" biology=0.5
like "$rc $err" "^0 quotas.sh: all quotas together are 450 .* a GPU, and Slurm sells 400" \
    "... and says when all together are more than the pool"
try 60 sh "$root/etc/quotas.sh" biology=0
is "$rc $err" "0 " "... and no more when they are not" || diag "$out"
sacctmgr -i add user root account=physics > /dev/null

waits() { [[ "$(job_state "$1") $(job_reason "$1")" =~ ^PENDING\ QOS.* ]] ||
    { scontrol show job "$1"; return 1; }; }
submitted -A physics --gres=rgpu:a100:1 --wrap "$(until_file "$T/end1")"; one=$job
ok "a job within the quota of its type runs" wait_for 30 runs "$one"
submitted -A physics --gres=rgpu:a100:1 --wrap true; two=$job
ok "... the next of that type pends, though one is free" wait_for 30 waits "$two"
submitted -A physics --gres=rgpu:h100:1 --wrap "$(until_file "$T/end1")"; three=$job
ok "... and one of another type runs" wait_for 30 runs "$three"
touch "$T/end1"
ok "... when the first has ended, the second runs" wait_for 60 is_state "$two" COMPLETED
wait_for 20 all_free

# Its record, as rgpu usage reads it; for wait_for.
recorded()
{
    sacct -X -n -P -j "$1" -o AdminComment | tr '`' '"' | sed -n 's/.*{"rgpu":\(.*\)}$/\1/p' \
        > "$T/record"
    [ -s "$T/record" ] || { sacct -X -D -P -j "$1" -o jobid,state,admincomment; return 1; }
}
record() { json_value "$1" < "$T/record"; }

# --- a wait

gpu=$(rgpu list --json | json_value '[s["gpus"][0]["uuid"] for s in j["servers"]][1]')
submitted -A physics --gres=rgpu:1 --rgpu-uuid="$gpu" --wrap "$(until_file "$T/end2")"; has=$job
wait_for 30 runs "$has"
submitted -A physics --gres=rgpu:1 --rgpu-uuid="$gpu" --wrap true; wants=$job
says_so() { [[ $(note_of "$wants") =~ "waits for 1 GPU" ]] || { note_of "$wants"; return 1; }; }
ok "a job waits in its prolog" wait_for 30 says_so
scancel "$wants"
ok "... is cancelled there" wait_for 30 is_state "$wants" CANCELLED
ok "... and has a record all the same" wait_for 60 recorded "$wants"
is "$(record 'j["gpus"], j["servers"]')" "([], [])" "... without a second of GPU time"
touch "$T/end2"
wait_for 20 all_free

# --- what an earlier run left

cat > "$T/script" <<END
#!/bin/sh
[ -z "\$SLURM_RESTART_COUNT" ] || exec $build/cuda/vector_add-static
exec $build/cuda/steady-static $T/mark
END
submitted -A physics --gres=rgpu:1 "$T/script"; lost=$job
ok "a job runs" wait_for 60 test -e "$T/mark"
server=$(server_of "$lost")
crash "rgpud.$server"
kill -9 $(workers)
ok "... loses its server, and is requeued" wait_for 60 is_requeued "$lost"
back "$server"
is "$(server_of "$lost")" "$server" "... which comes back with the lease of that run"
# All that is free is that lease's: the prolog has to end it.
submitted -A physics --gres=rgpu:2 --rgpu-server="$(other_of "$server")" --wrap \
    "$(until_file "$T/end3")"; others=$job
wait_for 30 runs "$others"
submitted -A physics --gres=rgpu:1 --rgpu-server="$server" --wrap "$(until_file "$T/end3")"
wait_for 30 runs "$job"
start_now "$lost"
ok "the second run ends it, and gets that GPU within seconds" wait_for 20 is_state "$lost" COMPLETED
ok "... and has a record" wait_for 60 recorded "$lost"
is "$(record 'j["servers"], [g["launches"] for g in j["gpus"]]')" "(['$server'], [1])" \
    "... of its own use, without the first run's"
touch "$T/end3"
wait_for 20 all_free

# --- a job that is not requeued: scontrol takes no AdminComment of one that has ended

rm -f "$T/mark"
submitted -A physics --no-requeue --gres=rgpu:1 --wrap "exec $build/cuda/steady-static $T/mark"
ok "a job with --no-requeue runs" wait_for 60 test -e "$T/mark"
kill -9 $(workers)
ok "... fails as its worker dies" wait_for 60 is_state "$job" FAILED
told() { sacct -X -n -P -j "$job" -o AdminComment > "$T/told"; grep -q 'lost its' "$T/told"; }
ok "... and its record says so" wait_for 60 told
like "$(cat "$T/told")" '^rgpu: lost its worker on server gpu[12] \(worker .*ended by .*failed' \
    "... with server and cause"
done_testing
