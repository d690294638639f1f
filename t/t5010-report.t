#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How well a program used its GPUs, outside Slurm: rgpu run --report, the time that it waits for a
# slow network, leases that nobody uses, and what rgpud remembers.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu tenant=$build/cuda/tenant-static

rgpud gpu1
first=$pid
clients "gpu1=$control"
usage() { api GET "/v1/usage${1-}"; }

# --- at the end of a program

try 60 "$rgpu" run --report -- "$build/cuda/vector_add-static"
is "$rc" 0 "rgpu run --report runs the program" || diag "$err"
unlike "$out" 'verdict' "... whose output is its own"
like "$err" "^this program: 1 GPU of gpu1 \(rgpu software GPU\), held 0:00:[0-9]+ until now
 +GPU time held +0:00:[0-9]+
 +... used +0:00:[0-9]+, [0-9.]+ %
 +waited for the network +0:00:00, [0-9.]+ %
 +waited for other tenants +0:00:00, [0-9.]+ %
 +throttled by its own share +0:00:00, 0 %
 +memory of one GPU, at most +1[0-9.]+ MiB of 64.0 MiB
 +bytes to the GPUs, and back +[78].[0-9] MiB, [34].[0-9] MiB
 +round trips +[1-9][0-9]*
 +launches +1
verdict: " "stderr has the report"
try 60 "$rgpu" run --report -- sh -c 'exit 7'
like "$rc $err" '^7 .*verdict: no kernel ran on its GPUs' "a program without GPU work is told so"
try 60 "$rgpu" run -p 0.2 --report -- "$tenant" us=1000 seconds=2
like "$err" 'verdict: .*held back for 0:00:0[12] by its own ceiling.*--rgpu-share=20-100' \
    "one that its ceiling held back is told which range to ask for" || diag "$out$err"

# --- a slow network, of 10 ms for a round trip

"$rgpu" request -o "$T/lease" > /dev/null
start link python3 "$root/t/lib/slow_link.py" "$T/lease" "$T/far" 10
ok "a slow link is there" wait_for 20 test -s "$T/far"
RGPU_STATS=$T/stats RGPU_TRANSPORT=tcp try 60 "$rgpu" run --lease "$T/far" --report -- \
    "$tenant" us=1000 mode=sync seconds=3
like "$err" 'verdict: blocked [0-9]+ % of the time on the network, most of it on small calls' \
    "a program that waits for each kernel is told that the network held it" || diag "$out$err"
usage
is "$(json 'len(j["leases"])')" 1 "GET /v1/usage has the lease"
blocked=$(json_value 'j["blocked_ms"] / 1000' < "$T/stats")
trips=$(json_value 'j["round_trips"]' < "$T/stats")
note "$trips round trips, $blocked s blocked; rgpud says $(json 'j["leases"][0]["network_s"]') s"
near="0.7 * 0.010 * $trips <= j['leases'][0]['network_s'] <= 1.1 * $blocked"
ok "... about as long as its round trips take, and no longer than the program was blocked" \
    json_true "$near" <<< "$body"
ok "... and its round trips are counted" json_true \
    "0.8 * $trips <= j['leases'][0]['round_trips'] <= 1.2 * $trips" <<< "$body"
stop "$pid"

# --- leases that nobody uses

try 20 "$rgpu" idle
like "$rc $out" '^0 no lease has gone unused for 10m or more' "rgpu idle: none for ten minutes"
idle() { "$rgpu" idle -t 1s > "$T/idle"; grep -q '^0:00:' "$T/idle" || { cat "$T/idle"; false; }; }
ok "a lease is unused after a second" wait_for 20 idle
like "$(cat "$T/idle")" '^UNUSED FOR +SERVER +GPUS +HELD BY +HELD FOR +LEASE
0:00:[0-9]+ +gpu1 +1 .*0:0[0-9]:[0-9]+ +[0-9a-f]{8}
unused for 1s or more: 1 GPU' "... with who holds it, and since when"
is "$("$rgpu" idle -t 1s --json | json_value '[str(g["share"]) for l in j["leases"]
    for g in l["gpus"]]')" 100 "... as JSON"
"$rgpu" run --lease "$T/lease" -- "$tenant" us=1000 seconds=1 > /dev/null
usage
ok "... and used again when a kernel has run" json_true 'j["leases"][0]["idle_s"] < 3' <<< "$body"
try 20 "$rgpu" idle -t yesterday
like "$rc $err" '^2 rgpu: --time yesterday: ' "a time that is none is refused"
try 20 "$rgpu" idle --server gpu9
like "$rc $err" '^1 rgpu: .*has no server gpu9' "... and a server that is not there"

# --- what is remembered

"$rgpu" release --file "$T/lease" > /dev/null
as_job='"uid": 0, "job": "17", "node": "cn1"'
api POST /v1/offers "{\"gpus\": 1, \"share\": 25, \"owner\": {$as_job}}"
api POST "/v1/offers/$(json 'j["id"]')/accept"
lease=$(json 'j["leases"][0]["id"]')
usage '?job=17'
ok "a job's lease is told while it is held" json_true \
    "[(l['lease'], l['ended_at']) for l in j['leases']] == [('$lease', 0)]" <<< "$body"
api DELETE "/v1/leases/$lease"
remembered()
{
    usage '?job=17'
    json_true "[l['lease'] for l in j['leases'] if l['ended_at'] > 0] == ['$lease']" <<< "$body"
}
ok "... and when it has ended" wait_for 20 remembered
kill -9 "$first"
wait_for 20 tap_gone "$first"
rm "$T/gpu1.ready"
body=
rgpud gpu1
ok "... also by the next rgpud" wait_for 20 remembered
usage '?jobs=17'
like "$code $body" '^400 .*knows one parameter: job=' "a parameter that is none is refused"
clients "gpu1=$control"
try 20 "$rgpu" report 17
like "$rc $out" '^0 job 17 of .*1 GPU of gpu1.*verdict: no kernel ran' "rgpu report tells of it"
try 20 "$rgpu" report 18
like "$rc $err" '^1 rgpu: job 18: no server has a lease of it in the last month' \
    "a job that nobody knows"
try 20 "$rgpu" report seventeen
like "$rc $err" '^1 rgpu: seventeen is no job: a number is wanted' "... and what is no job"
try 20 "$rgpu" report
like "$rc $err" '^2 rgpu: job is required' "... and none"

# --- in Slurm's mail

sed "s|@bindir@|$build/bin|" "$root/etc/mail-report.sh.in" > "$T/mail-report"
printf '#!/bin/sh\necho "$2 to $3"\ncat\n' > "$T/mail"
chmod 755 "$T/mail-report" "$T/mail"
export RGPU_MAIL=$T/mail
try 20 "$T/mail-report" -s 'Slurm Job_id=17 Name=a Ended, Run time 00:00:01' ann < /dev/null
like "$rc $out" '^0 Slurm Job_id=17 .* to ann
job 17 of .*verdict: ' "the mail at a job's end has its report"
try 20 "$T/mail-report" -s 'Slurm Job_id=17 Name=a Began, Queued time 00:00:01' ann < /dev/null
is "$rc $out" "0 Slurm Job_id=17 Name=a Began, Queued time 00:00:01 to ann" \
    "... that at its begin not"
try 20 "$T/mail-report" -s 'Slurm Job_id=18 Name=a Ended' ann <<< "text"
is "$rc $out" "0 Slurm Job_id=18 Name=a Ended to ann
text" "... and of a job without GPUs of the pool it is as ever"

RGPU_CONF=$T/nobody.conf
sed "s/127.0.0.1:$control/127.0.0.1:$(free_port)/" "$T/rgpu.conf" > "$RGPU_CONF"
try 20 "$rgpu" report 17
is "$rc" 123 "where no server answers the status says it"
done_testing
