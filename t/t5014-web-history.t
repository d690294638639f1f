#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The page of rgpu web shows the pool's last day from its own files, and weeks from a Prometheus.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
. "$(dirname "$0")/lib/web.sh"

# told DAYS [SERVER]: asks until Prometheus has been asked.
told()
{
    get "/v1/history?days=$1&server=${2-}" -H "$(bearer)"
    [ "$code" != 202 ]
}
points() { json_value "$1" <<< "$body" 2> /dev/null; }

rgpud one 'open_metrics = true'
gpu1=$control
clients "gpu1=$gpu1"
plain=$(cat "$T/rgpu.conf")

# --- a day

mkdir "$T/history"
# GPUs, held, in use, memory, held, used, drained, and what jobs wait for:
python3 "$py/history_ring.py" "$T/history/server-gpu1.ring" 2 1.5 0.25 1000 800 300 1 0
python3 "$py/history_ring.py" "$T/history/queue.ring" 0 0 0 0 0 0 0 6
printf '%s\n[web]\nhistory = "%s"\n' "$plain" "$T/history" > "$T/rgpu.conf"
web day
seen() { told 1 && [ "$(points 'len(j["points"]) > 430')" = True ]; }
ok "the last day is there, but for two hours" wait_for 20 seen || diag "$code $body"
is "$(points 'len(j["points"]) < 450')" True "... in points of three minutes"
is "$(points 'j["points"][9][1:]')" "2.0 1.5 0.25 1000.0 800.0 300.0 1.0 6.0" \
    "... with all its numbers"
is "$(points 'j["points"][9][0] - j["points"][8][0]')" 180000 "... and times"
told 1 gpu1
is "$(points 'j["points"][9][1:]')" "2.0 1.5 0.25 1000.0 800.0 300.0 1.0 None" "one server's day"
told 1 gpu2
is "$code" 404 "a server that rgpu.conf does not have"
told 7
is "$code $(points 'j["error"]')" "400 days: 1; more are known where [web] prometheus is set" \
    "a week needs Prometheus, which it says"
told x
is "$code" 400 "a number of days that is none"
get "/v1/history"
is "$code" 401 "nobody is told without the token"
stop "$web_pid"
printf '%065d, and other notes' 0 > "$T/history/queue.ring"
try 10 "$build/bin/rgpu" web --listen 127.0.0.1:0
like "$rc $err" "^1 rgpu: \[web\] history: $T/history/queue.ring is no history .*: remove it" \
    "another file in its place is not written over, and it says what to do"
printf '%s\n[web]\nhistory = "/proc/none/there"\n' "$plain" > "$T/rgpu.conf"
try 10 "$build/bin/rgpu" web --listen 127.0.0.1:0
like "$rc $err" '^1 rgpu: \[web\] history /proc/none/there: No such file' \
    "a folder that cannot be made"

# --- weeks

for bad in localhost:9090 https://localhost:9090 http://localhost 'http://localhost:9090/?x=1'; do
    printf '%s\n[web]\nprometheus = "%s"\n' "$plain" "$bad" > "$T/rgpu.conf"
    try 10 "$build/bin/rgpu" web --listen 127.0.0.1:0
    like "$rc $err" '^1 rgpu: \[web\] prometheus .*must be like "http://localhost:9090"' "$bad"
done
start prometheus python3 "$py/made_up_prometheus.py" "$T/port" "$T/asked"
ok "a Prometheus of the test's" wait_for 20 test -s "$T/port"
printf '%s\n[web]\nprometheus = "http://127.0.0.1:%s/below/"\n' "$plain" "$(cat "$T/port")" \
    > "$T/rgpu.conf"
web weeks
seen() { told 1 && [ "$(points 'j["most_days"]')" = 90 ]; }
ok "the page learns that there are weeks" wait_for 20 seen
echo numbers > "$T/HOW"
get "/v1/history?days=7&server=gpu1" -H "$(bearer)"
is "$code $body" "202 {}" "nobody waits for Prometheus"
ok "... whose answer comes" wait_for 20 told 7 gpu1
is "$(points 'j["points"][0][1:]')" "12.5 12.5 12.5 12.5 12.5 12.5 12.5 None" \
    "... with all numbers but who waits"
is "$(points 'len(j["points"])')" 1 "... and without what is no number"
is "$(sort -u "$T/asked" | wc -l)" 7 "it is asked seven queries"
like "$(cat "$T/asked")" '/below/api/v1/query_range sum\(rgpu_gpus\{server="one"\}\) 604800' \
    "... for that week and server, by its own name, below the path"
told 7 gpu1
is "$(wc -l < "$T/asked")" 7 "... once a minute at most"
told 91
is "$code" 400 "more days than it keeps"
echo fails > "$T/HOW"
ok "Prometheus refuses" wait_for 20 told 30
is "$code $(points 'j["error"]')" "502 Prometheus: too many points" \
    "... which the page is told in its words"
days=31
for data in '{"result": [{"values": [[1]]}]}' '{"result": [{"values": [1]}]}' '{"result": [7]}' \
    '{"result": {}}' '[]' 7; do
    echo "{\"status\": \"success\", \"data\": $data}" > "$T/HOW"
    ok "it answers what nobody knows: $data" wait_for 20 told $days
    like "$code $(points 'j["error"]')" '^502 Prometheus: its answer is none' "... which is said"
    days=$((days + 1))
done
echo silent > "$T/HOW"
told 60
get /v1/pool -H "$(bearer)"
is "$code" 200 "one that does not answer keeps nobody waiting"
ok "... and is given up" wait_for 30 told 60
like "$code $(points 'j["error"]')" '^502 Prometheus: ' "... which is said"
kill -TERM "$web_pid"
ended() { tap_gone "$web_pid"; }
ok "rgpu web ends at once" wait_for 15 ended

# --- a real one

command -v prometheus > /dev/null || { skip "prometheus is missing" 1; done_testing; exit; }
port=$(free_port)
sed "s/gpu1.example.org:7710, gpu2.example.org:7710/127.0.0.1:$gpu1/
    s|rgpu.rules.yml|$root/contrib/prometheus/&|
    s/scrape_interval: .*/scrape_interval: 1s/" "$root/contrib/prometheus/prometheus.yml" \
    > "$T/prometheus.yml"
start real prometheus --config.file="$T/prometheus.yml" --storage.tsdb.path="$T/tsdb" \
    --web.listen-address="127.0.0.1:$port" --log.level=warn
printf '%s\n[web]\nprometheus = "http://127.0.0.1:%s"\n' "$plain" "$port" > "$T/rgpu.conf"
web real
real() { told 7 "${1-}" && [ "$(points 'j["points"][-1][1:6]')" = "2.0 0.0 0.0 134217728.0 0.0" ]; }
ok "Debian's Prometheus knows the expressions" wait_for 90 real || diag "$code $body"
ok "... for one server, too" wait_for 20 real gpu1 || diag "$code $body"
done_testing
