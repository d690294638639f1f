#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A user watches the pool, the queue and a job's whole life in a browser, live; another user sees
# that GPUs are held, and not by whom.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
. "$(dirname "$0")/lib/web.sh"
need_browser
cluster_up
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"
me=$(id -un)

web page
page=$web_pid
browser
main='document.getElementById("main").innerText'
job_says() { echo "/$1/.test([...document.querySelectorAll('#main h2 ~ p')].map(
    (p) => p.innerText).join(' '))"; }
value() { echo "Number(/$1 (\\d+)/.exec(document.querySelector('.chart:nth-child($2) .now')
    ?.innerText)?.[1])"; }
sees "the page" "!go #token=$token"
sees "... shows four GPUs that are free" \
    '[...document.querySelectorAll(".gpu .who")].filter((w) => w.innerText === "free").length === 4'
sees "its queue" '!click nav a[href="#queue"]'
sees "... is empty" "/0 jobs waiting, 0 jobs with GPUs .*; 4 of 4 GPUs are not taken/.test($main)"

# --- a job that computes, and one that waits for it

submitted --gres=rgpu:2 -t 60 --wrap "$(until_file "$T/end")"
filler=$job
submitted --gres=rgpu:2 -t 60 --wrap "exec '$build/cuda/tenant-static' us=1000 seconds=600 \
    file='$T/notes'"
busy=$job
for job in "$filler" "$busy"; do
    ok "a job runs" wait_for 60 is_state "$job" RUNNING || bail "no job runs"
done
sees "... which the queue shows" \
    "/$busy\\s+$me\\s+2 GPUs\\s+RUNNING/.test($main)"
submitted --gres=rgpu:2 --wrap "$(until_file "$T/end")"
waiting=$job
lacks() { [ "$(job_reason "$waiting")" = Licenses ]; }
ok "another waits" wait_for 60 lacks
sees "... and the queue says why" \
    "/$waiting\\s+$me\\s+2 GPUs\\s+PENDING[^]*not enough GPUs of the pool are free/.test($main)"
readable "the queue"
sees "a picture" "!shot queue"
sees "the pool" '!click nav a[href="#pool"]'
sees "... has the job on its GPUs" \
    "document.querySelectorAll('.gpu[aria-label*=\"$me $busy 100 %\"]').length === 2"
sees "a GPU of it" "!click .gpu[aria-label*=\"$me $busy\"]"
sees "... is shown in full" "/^$me\\t$busy on cn[0-9]+\\t/m.test(
    document.querySelector('.detail table').innerText)"
sees "... and leads to the job" "!click .detail a[href='#job=$busy']"
sees "... whose page says whose it is" "$(job_says "job $busy of $me · 2 GPUs since")"
sees "... and where" "$(job_says 'On gpu[12] GPU [01] .100 %, runs')"
sees "it has four charts, drawn" '[...document.querySelectorAll(".chart canvas")].filter(
    (c) => new Set(c.getContext("2d").getImageData(0, 0, c.width, c.height).data).size > 8)
    .length === 4'
sees "the job's GPU is used" "$(value use 1) > 2"
sees "... and some of its memory" "$(value used 2) > 0"
points='Chart.getChart(document.querySelector(".chart canvas")).data.datasets[0].data.length'
sees "the line grows" "(window.before ??= $points) && $points > window.before + 1"
readable "a job's page"
sees "a picture" "!shot job"
get "/v1/job?id=$busy" -H "$(bearer)"
is "$code" 200 "programs get the same as JSON"
is "$(json_value '(j["user"], j["gpus"], j["samples"][-1][1] > 1)' <<< "$body")" \
    "('$me', 2, True)" "... with what it used"
sees "the console has nothing to say" '!messages'
sees "a number that there is not" '!go #job=999999'
sees "... is said to be none" "$(job_says 'no job of yours of that number')"
like "$(browser_says '!messages')" '^[^|]*v1/job.id=999999[^|]*404[^|]*$' \
    "... and the server's refusal is all that the console has"
sees "the job again" "!go #job=$busy"
sees "... with all of its life" "$points > 4"

# --- another user

head -c 24 /dev/urandom | base64 > "$T/token"
chmod 600 "$T/token"
{
    cat "$RGPU_CONF"
    printf '[web]\nuser_header = "X-Remote-User"\ntoken_file = "%s"\n' "$T/token"
} > "$T/proxied.conf"
own=$at own_token=$token
RGPU_CONF=$T/proxied.conf web proxied
token=$(cat "$T/token")
as() { get "$2" -H "$(bearer)" -H "X-Remote-User: $1"; }
both()
{
    as root /v1/queue
    [ "$(json_value 'len(j["jobs"])' <<< "$body")" = 3 ]
}
ok "an administrator sees all jobs" wait_for 30 both
like "$body" "\"$waiting\"" "... by number"
lives() { as root "/v1/job?id=$busy"; [ "$code" = 200 ]; }
ok "... and what the first used" wait_for 30 lives
as nobody /v1/queue
is "$(json_value 'sorted((e["state"], e["licences"]) for e in j["jobs"])' <<< "$body")" \
    "('PENDING', 200) ('RUNNING', 200) ('RUNNING', 200)" \
    "another user sees how much is held and wanted"
unlike "$body" "$me|\"$busy\"|\"$waiting\"|why" "... and of whom or why, nothing"
as nobody "/v1/job?id=$busy"
is "$code" 404 "nor is he told what the job used"
as nobody /v1/job
is "$code" 400 "a question without a number"
stop "$web_pid"
at=$own token=$own_token

# --- its end

scancel "$busy"
sees "the job's end is on its page" "$(job_says 'ended at')"
ok "the other one starts" wait_for 60 is_state "$waiting" RUNNING
known() { get "/v1/job?id=$waiting" -H "$(bearer)"; [ "$code" = 200 ]; }
ok "... and has its GPUs" wait_for 30 known
sees "its page" "!go #job=$waiting"
sees "... tells of it" "$(job_says "job $waiting of $me · 2 GPUs since")"
touch "$T/end"

# --- squeue that waits for a slurmctld which does not answer

kill -STOP "$(cat "$cluster/pid/slurmctld")"
rgpu drain gpu1:0 --reason 'new fans' > "$T/drained"
sees "slurmctld does not answer: the pool" '!click nav a[href="#pool"]'
sees "... is live all the same" '/drained: new fans/.test(document.querySelector(".gpu").innerText)'
sees "the console has nothing to say to the end" '!messages'
sees "nothing was asked of others" '!requests'
kill -TERM "$page"
ended() { tap_gone "$page"; }
ok "... and rgpu web ends at once" wait_for 4 ended
kill -CONT "$(cat "$cluster/pid/slurmctld")"
rgpu resume gpu1:0 > "$T/resumed"
done_testing
