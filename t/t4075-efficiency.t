#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rgpu report: how well a job used its GPUs. [pool] idle_warn and idle_end: a job that does not use
# them is told in its output, and then requeued and held, or cancelled.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up
tenant=$build/cuda/tenant-static
ended() { is_state "$1" COMPLETED; }

# --- report

submitted --gres=rgpu:1 --wrap "$build/cuda/vector_add-static"; vectors=$job
submitted --array=3 --gres=rgpu:2 --wrap "$tenant us=1000 seconds=2"; array=$job
submitted --gres=rgpu:1 --wrap true; unused=$job
for job in "$vectors" "$unused"; do ok "a job ends" wait_for 60 ended "$job"; done
figures='[j["launches"], j["gpus"], j["ended"], 16e6 <= 2 * j["bytes_in"] < 18e6,'
figures+=' 12e6 <= j["memory_peak"] < j["memory"], j["round_trips"] > 3]'
told()
{
    rgpu report "$1" --json > "$T/report" &&
        [ "$(json_value 'j["ended"]' < "$T/report")" = True ]
}
ok "rgpu report knows it" wait_for 20 told "$vectors"
is "$(json_value "str($figures)" < "$T/report")" "[1, 1, True, True, True, True]" \
    "... its kernel, bytes, memory and round trips" || diag "$(cat "$T/report")"
try 20 rgpu report "$vectors"
like "$rc $out" "^0 job $vectors of $(id -un): 1 GPU of gpu[12] \(rgpu software GPU\), held 0:" \
    "... in words"
ok "... also of one that used nothing" wait_for 20 told "$unused"
like "$(rgpu report "$unused")" 'verdict: no kernel ran on its GPUs: .*CUDA_VISIBLE_DEVICES' \
    "... with advice"
ok "a task of an array ends" wait_for 60 ended "${array}_3"
ok "... and is found by its own name" wait_for 20 told "${array}_3"
like "$(rgpu report "${array}_3")" \
    'verdict: 1 of its 2 GPUs ran no kernel: .*Ask for 1' \
    "of a job that used one of two GPUs this is said"
submitted --gres=rgpu:1 --wrap "$(until_file "$T/go")"; running=$job
ok "a job runs" wait_for 60 is_state "$running" RUNNING
like "$(rgpu report "$running")" "^job $running of .* until now" "... and is told of meanwhile"
if setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$build/bin/rgpu"; then
    try 20 setpriv --reuid=65534 --regid=65534 --clear-groups "$build/bin/rgpu" report "$vectors"
    like "$rc $err" "^1 rgpu: job $vectors: no server has a lease of it .*that you may see" \
        "another user is not told"
else
    skip "user nobody cannot reach $build"
fi
try 20 rgpu report 999999
like "$rc $err" '^1 .*did it ask for GPUs of the pool' "a job that there is not"
try 20 rgpu report 999999_1
like "$rc $err" '^1 rgpu: job 999999_1: neither squeue nor sacct knows' "... by its array's name"
touch "$T/go"
ok "it ends" wait_for 60 ended "$running"

# --- unused for long

conf() { { cat "$RGPU_CONF" && echo '[pool]' && printf '%s\n' "$@"; } > "$T/pool.conf"; }
sync() { try 30 rgpu --config "$T/pool.conf" slurm sync --json; }
idle_now()  # warned or ended, JOB
{
    sync
    [ "$(json_value "j[\"idle_$1\"]" <<< "$out")" = "$2" ] || { echo "$out$err"; return 1; }
}
conf 'idle_warn = "1s"' 'idle_end = "6s"'
submitted --gres=rgpu:2 --requeue -o "$T/output" --wrap 'sleep 300'; lazy=$job
submitted --gres=rgpu:1 -o "$T/busy" --wrap "$tenant us=1000 seconds=30"; busy=$job
for job in "$lazy" "$busy"; do ok "a job runs" wait_for 60 is_state "$job" RUNNING; done
ok "rgpu slurm sync warns the one that does nothing" wait_for 30 idle_now warned "$lazy"
warned() { grep -q . "$T/output"; }
ok "... in its output" wait_for 20 warned
told="rgpu: job $lazy has not used its 2 GPUs for [0-9]+s; after 6s without use it is requeued"
like "$(cat "$T/output")" "$told" "... in words"
sync
is "$(json_value 'str(j["idle_warned"])' <<< "$out")" "[]" "... once"
is "$(job_state "$lazy")" RUNNING "... and it runs on"
ok "after idle_end it is ended" wait_for 30 idle_now ended "$lazy"
ok "... requeued" wait_for 60 is_state "$lazy" PENDING
like "$(job_reason "$lazy")" '[Hh]eld' "... and held"
like "$(note_of "$lazy")" 'rgpu: it did not use its 2 GPUs for [0-9]+s: requeued and held' \
    "... and its AdminComment says why"
is "$(job_state "$busy")" RUNNING "the one that uses its GPU runs on"
unlike "$(cat "$T/busy")" 'has not used' "... and was not warned"
scancel "$lazy"
submitted --gres=rgpu:1 --no-requeue -o "$T/output" --wrap 'sleep 300'; lazy=$job
ok "one that cannot be requeued runs" wait_for 60 is_state "$lazy" RUNNING
ok "... is warned" wait_for 30 idle_now warned "$lazy"
ok "... and ended" wait_for 30 idle_now ended "$lazy"
ok "... cancelled" wait_for 60 is_state "$lazy" CANCELLED
conf 'idle_warn = "1s"' 'idle_end = "2s"' \
    "idle_exempt = [\"$(squeue -h -j "$busy" -o %q)\"]"
submitted --gres=rgpu:1 -o "$T/exempt" --wrap 'sleep 300'; exempt=$job
ok "a job of an exempt QOS runs" wait_for 60 is_state "$exempt" RUNNING
unused() { rgpu idle -t 3s --json | json_true "any(l['job'] == '$exempt' for l in j['leases'])"; }
ok "... and rgpu idle shows it" wait_for 30 unused
sync
is "$(json_value 'str(j["idle_warned"] + j["idle_ended"])' <<< "$out")" "[]" \
    "... but nothing is done to it"
conf 'idle_action = "shout"'
sync
like "$rc $err" '^1 rgpu: .*idle_action.*"requeue", "cancel"' "a word that is none is refused"
end_jobs
done_testing
