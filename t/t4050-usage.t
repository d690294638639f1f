#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a job used of the pool stands in its record of Slurm's accounting, and rgpu usage sums it up.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
for program in slurmdbd mariadbd; do
    PATH=$PATH:/usr/sbin command -v $program > /dev/null || skip_all "$program is not installed"
done
cluster_up --accounting
sacctmgr -i add account blue > /dev/null && sacctmgr -i add user root account=blue > /dev/null ||
    bail "no account"

# reported JOB: its record (the newest run's) has a report, which goes to $T/report; for wait_for.
reported()
{
    sacct -X -n -P -j "$1" -o AdminComment | tr '`' '"' |
        sed -n 's/.*{"rgpu":\(.*\)}$/\1/p' > "$T/report"
    [ -s "$T/report" ] || { sacct -X -D -P -j "$1" -o jobid,state,admincomment; return 1; }
}
# holds CONDITION: in Python, of the report `r` and its only type of GPUs `g`.
holds()
{
    json_true "[$1 for r in [j] for g in [r['gpus'][0] if r['gpus'] else {}]][0]" < "$T/report" ||
        { cat "$T/report"; false; }
}

mkfifo "$T/go"
submitted -N2 -A blue --gres=rgpu:1 -o "$T/two" --wrap \
    "srun $build/cuda/vector_add-static && echo both && cat $T/go"
two=$job
# A worker looks at the memory a last time when its program has gone.
gone()
{
    grep -q both "$T/two" && ! rgpu leases --json | grep -qE '"workers": *[1-9]' ||
        { cat "$T/two"; rgpu leases; return 1; }
}
ok "a job on two nodes" wait_for 60 gone
echo > "$T/go"
ok "... ends" wait_for 60 is_state "$two" COMPLETED
ok "... has a report in its record" wait_for 60 reported "$two"
like "$(sacct -X -n -P -j "$two" -o AllocTRES)" 'gres/rgpu=2,license/rgpu=200' \
    "Slurm counts its GPUs by itself"
# Each copies two arrays of 4 MB there and one back.
ok "the report has the kernels and bytes of both" holds \
    'g["launches"] == 2 and 16e6 <= g["bytes_in"] < 17e6 and 8e6 <= g["bytes_out"] < 9e6'
ok "... the most memory of one" holds '12e6 <= g["memory_peak"] < 24e6'
ok "... GPU time held, and used" holds '0 < g["busy_seconds"] < g["gpu_seconds"] < 100'
ok "... and nobody waited" holds 'g["throttled_seconds"] == 0 and g["blocked_seconds"] < 0.1'

# Its node is for the next job before the record is written.
slurmdbd=$(cat "$cluster/pid/slurmdbd")
submitted --gres=rgpu:1 -o "$T/unwritten" --wrap "$build/cuda/vector_add-static && cat $T/go"
unwritten() { grep -q . "$T/unwritten" || { cat "$T/unwritten"; false; }; }
ok "a job runs" wait_for 60 unwritten
kill -STOP "$slurmdbd"
cleanup_do kill -CONT "$slurmdbd"
echo > "$T/go"
nobody() { [ -z "$(squeue -h -o %i)" ] || { squeue; false; }; }
ok "it ends while slurmdbd stands still" wait_for 20 nobody
kill -CONT "$slurmdbd"
ok "... has a report when that goes on" wait_for 60 reported "$job"
ok "... of its kernel" holds 'g["launches"] == 1'

submitted --gres=rgpu:1 --rgpu-share=20 --wrap "$build/cuda/tenant-static us=1000 seconds=1"
ok "a job with a ceiling" wait_for 60 is_state "$job" COMPLETED
ok "... has a report" wait_for 60 reported "$job"
ok "... that says how long it was throttled" holds 'g["throttled_seconds"] > 0.2'

# Two that share one GPU, whichever prolog is the first; one's worker is killed, the other is
# cancelled.
gpu=$(first_gpu)
for name in first second; do
    submitted --no-requeue --gres=rgpu:1 --rgpu-uuid="$gpu" --rgpu-share=20-100 --wrap \
        "$build/cuda/tenant-static us=2000 seconds=300"
    eval "$name=$job"
done
both()
{
    rgpu top --json | json_value '[t["given_s"] for s in j["servers"] for g in s["gpus"]
        for t in g["tenants"] if t["workers"]]' > "$T/given"
    awk 'NF == 2 && $1 > 0.3 && $2 > 0.3 { found = 1 } END { exit !found }' "$T/given" ||
        { rgpu top; false; }
}
ok "two jobs share a GPU" wait_for 60 both
lease=$(rgpu list --json | json_value '[l["id"] for s in j["servers"] for l in s["leases"]
    if l["owner"]["job"] == a[0]]' "$first")
for pid in $(workers); do
    grep -qsaF "RGPU_WORKER_LEASE=$lease" "/proc/$pid/environ" && kill -9 "$pid"
done
ok "one ends as its worker is killed" wait_for 60 is_state "$first" FAILED
is "$(job_state "$second")" RUNNING "... the other runs on"
scancel "$second"
ok "... and is cancelled" wait_for 60 is_state "$second" CANCELLED
for job in $first $second; do
    ok "a report is there all the same" wait_for 60 reported "$job"
    ok "... with GPU time, and how long the other had the GPU" holds \
        'g["busy_seconds"] >= 0.3 and g["blocked_seconds"] > 0.1'
done

# Runs of a requeued job are told apart; what an administrator wrote stays.
script="$build/cuda/vector_add-static; [ \$SLURM_RESTART_COUNT ] || { touch $T/begun; exec "
script+="sleep 300; }"
submitted -A blue --gres=rgpu:1 --wrap "$script"
ok "a job runs" wait_for 60 test -e "$T/begun"
scontrol update job "$job" admincomment="seen by me"
scontrol requeue "$job"
ok "... and is requeued" wait_for 60 is_state "$job" PENDING
ok "... which is a run with a report" wait_for 60 reported "$job"
like "$(sacct -X -n -P -j "$job" -o AdminComment)" '^seen by me ' \
    "... behind an administrator's comment"
ok "it runs again" wait_for 60 is_state "$job" COMPLETED
runs() { [ "$(sacct -X -D -n -P -j "$job" -o AdminComment | grep -c launches)" = 2 ] ||
    { sacct -X -D -P -j "$job" -o jobid,state,admincomment; return 1; }; }
ok "... and so there are two reports" wait_for 60 runs

# A server that is away when the job ends.
submitted --gres=rgpu:2 -o "$T/away" --wrap "$build/cuda/vector_add-static && cat $T/go"
away() { grep -q . "$T/away" || { cat "$T/away"; false; }; }
ok "a job runs" wait_for 60 away
server=$(rgpu list --json | json_value '[s["name"] for s in j["servers"] if s["leases"]]')
kill -9 "$(cat "$cluster/pid/rgpud.$server")"
echo > "$T/go"
ok "... ends while $server is away" wait_for 60 is_state "$job" COMPLETED
ok "... and has a report" wait_for 60 reported "$job"
ok "... that says whose word is missing" holds "r['silent'] == ['$server'] and not g"

# The sums.
usage()
{
    rgpu usage --json "$@" | json_value '"\n".join(" ".join(map(str, (r["user"], r["account"],
        r["gpu"], r["runs"], r["launches"], r["unreported"]))) for r in j["usage"])'
}
# slurmctld tells slurmdbd each 5 s of jobs that have begun; before that sacct finds them by number
# only.
summed() { usage > "$T/usage"; grep -qx "$1" "$T/usage" || { cat "$T/usage"; false; }; }
ok "rgpu usage adds up what an account's jobs used" wait_for 60 summed \
    "root blue rgpu software gpu 3 4 0"
ok "... and what Slurm itself knows where a report is missing" wait_for 60 summed \
    "root root - 1 0 1"
try 20 rgpu usage -S now-1days -A blue --jobs
like "$out" "^USER +ACCOUNT +GPU +JOB +GPU TIME +BUSY +MEMORY +IN +OUT +BLOCKED +THROTTLED" \
    "... as a table"
like "$out" "root +blue +rgpu software gpu +$two +0:0" "... with a line for each job"
try 20 rgpu usage --json
is "$rc $(grep -cE '[0-9]\.[0-9]{4,}' <<< "$out")" "0 0" \
    "sums have thousandths of a second, and no digits that adding made"
try 20 rgpu usage -u nobody
is "$rc $out" "0 USER  ACCOUNT  GPU  RUNS  GPU TIME  BUSY  MEMORY  IN  OUT  BLOCKED  THROTTLED
0:00:00 of GPU time in all" "... which is empty where nothing ran"
try 20 rgpu usage -A blue --csv --price software_gpu=3600,7200
csv=$out
like "$rc $csv" '^0 user,account,gpu,runs,gpu_seconds,busy_seconds,.*,unreported,cost
root,blue,rgpu software gpu,3,[0-9.]+,' "--csv prints a table for spreadsheets"
is "$(python3 -c 'import csv, sys
rows = list(csv.DictReader(sys.stdin))
print([abs(float(r["gpu_seconds"]) - float(r["cost"])) < 0.01 for r in rows])' <<< "$csv")" \
    "[True]" "... and --price what it costs, by the name that fits best"
like "$(rgpu usage --price 7200 | head -n 1)" ' COST$' "... in the table, too"
like "$(rgpu usage --price 7200 | tail -n 1)" \
    ' of GPU time in all, which costs [0-9]+\.[0-9][0-9]' "... with the sum"
ok "... and in JSON" json_true 'all(r["cost"] >= r["gpu_seconds"] for r in j["usage"])' \
    <<< "$(rgpu usage --json --price 7200)"
for price in cheap h100= =2 h100=-1 nan 1,2; do
    try 20 rgpu usage --price "$price"
    like "$rc $err" '^2 rgpu: --price' "--price $price is refused"
done
try 20 rgpu usage --csv --json
like "$rc $err" '^2 rgpu: .*--(csv.*--json|json.*--csv)' "--csv and --json are one too many"
try 20 rgpu usage -S yesteryear
like "$rc $err" "^1 rgpu: sacct: " "what sacct does not understand is told in its words"
done_testing
