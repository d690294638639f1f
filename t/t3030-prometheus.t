#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What Prometheus sees: metrics that promtool finds nothing wrong with, labels that join, series
# that end with their lease; contrib/prometheus' alerts and dashboard, evaluated by a Prometheus
# that has scraped a server with programs on it.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu contrib=$root/contrib/prometheus

for tool in promtool prometheus; do
    command -v $tool > /dev/null || skip_all "$tool is missing: apt-get install prometheus"
done

# --- the files by themselves

ok "the rules are rules" promtool check rules "$contrib/rgpu.rules.yml"
ok "their unit tests pass" promtool test rules "$contrib/rgpu.rules.test.yml"
mkdir "$T/broken"
sed 's/< 0.05/< 0.01/' "$contrib/rgpu.rules.yml" > "$T/broken/rgpu.rules.yml"
cp "$contrib/rgpu.rules.test.yml" "$T/broken"
not_ok "... and fail where a rule is another" promtool test rules "$T/broken/rgpu.rules.test.yml"
is "$(sed -n 's/^ *- alert: //p' "$contrib/rgpu.rules.yml" | sort)" \
    "$(sed -n 's/^ *- alertname: //p' "$contrib/rgpu.rules.test.yml" | sort -u)" \
    "every alert has a test"
is "$(sed -n 's/^ *- alert: //p' "$contrib/rgpu.rules.yml" | while read -r alert; do
    grep -q "$alert" "$root/doc/monitoring.md" || echo "$alert"; done)" "" \
    "doc/monitoring.md says what to do about each alert"

# --- a server with readings of NVML that are made up, and a Slurm that knows job 17 alone

cat > "$T/worker" <<END
#!/bin/sh
[ "\$1" = --readings ] && exec cat "$T/readings"
exec "$build/libexec/rgpu-worker" "\$@"
END
printf '#!/bin/sh\ncat "%s"\n' "$T/jobs" > "$T/squeue"
chmod 755 "$T/worker" "$T/squeue"
echo "17 RUNNING" > "$T/jobs"
echo '{}' > "$T/readings"
rgpud gpu1 "worker = \"$T/worker\"" 'metrics_names = true' 'health_check = "1s"' \
    "squeue = \"$T/squeue\"" 'slurm_check = "2s"'
clients "gpu1=$control"
metrics() { curl -s "http://127.0.0.1:$control/metrics"; }
# value NAME LABEL...: of the only series with these labels ("gpu=GPU-1")
value()
{
    local name=$1 label lines
    shift
    lines=$(metrics | grep "^$name{")
    for label in "$@"; do lines=$(grep -F "${label%%=*}=\"${label#*=}\"" <<< "$lines"); done
    sed 's/.* //' <<< "$lines"
}
mapfile -t gpus < <(metrics |
    sed -n 's/^rgpu_gpu_info{.*gpu="\([^"]*\)".*index="\([^"]*\)".*/\2 \1/p' | sort | cut -d' ' -f2)
is "${#gpus[@]}" 2 "rgpu_gpu_info names both GPUs"
printf '{"driver": "580.65.06", "cuda": 13000, "gpus": [%s,%s]}\n' \
    "{\"index\": 0, \"uuid\": \"${gpus[0]}\", \"temperature\": 88, \"power\": 61500}" \
    "{\"index\": 1, \"uuid\": \"${gpus[1]}\", \"temperature\": 40, \"power\": 50000}" > "$T/new"
mv "$T/new" "$T/readings"
warm() { [ "$(value rgpu_gpu_temperature_celsius "gpu=${gpus[0]}")" = 88 ]; }
ok "a GPU's temperature is what NVML says" wait_for 20 warm
is "$(value rgpu_gpu_power_watts "gpu=${gpus[0]}")" 61.5 "... and its power"
is "$(value rgpu_gpu_health "gpu=${gpus[0]}") $(value rgpu_gpu_health "gpu=${gpus[1]}")" "1 0" \
    "88 C is MARGINAL of that GPU alone"
is "$(value rgpu_health_finding check=temperature "of=GPU 0" verdict=MARGINAL)" 1 \
    "... and a finding of its own"
is "$(value rgpu_build_info server=gpu1)" 1 "rgpu_build_info"
like "$(metrics | grep '^rgpu_build_info')" \
    "commit=\"$("$build/sbin/rgpud" --version | sed -n 's/.*commit \(.*\))/\1/p')\"" \
    "... has the commit"
is "$(metrics | grep -v '^#' | grep -vc 'server="gpu1"')" 0 "each series says which server it is of"

# --- leases: of a job, and of a program

as_job='"uid": 0, "job": "17", "node": "cn1", "account": "physics", "qos": "high"'
api POST /v1/offers "{\"gpus\": 1, \"share\": 25, \"owner\": {$as_job}}"
api POST "/v1/offers/$(json 'j["id"]')/accept"
lease=$(json 'j["leases"][0]["id"][:8]')
is "$(value rgpu_lease_info "lease=$lease" slurm_job=17 node=cn1 account=physics qos=high \
    "user=$(id -un)")" 1 "a job's lease says whose it is"
is "$(metrics | sed -n "s/^rgpu_lease_share{.*lease=\"$lease\".* //p")" 0.25 "... what it holds"
is "$(metrics | grep '^rgpu_gpu_share_free' | sed 's/.* //' | sort | tr '\n' ' ')" "0.75 1 " \
    "... which is no longer free"
start program "$rgpu" run -n 1 -p 0.5 -- "$build/cuda/tenant-static" us=1000 seconds=600 \
    "file=$T/notes"
program=$pid
works()
{
    metrics | awk '/^rgpu_share_given{.*window="10s"/ && $NF > 0.01 {found = 1} END {exit !found}'
}
ok "a program has the GPU" wait_for 60 works
metrics > "$T/metrics"
try 20 promtool check metrics < "$T/metrics"
is "$rc $out$err" "0 " "promtool check metrics finds nothing"
sed -E 's/^(# TYPE |)rgpu_leases_granted_total/\1rgpu_leases_granted/' "$T/metrics" > "$T/wrong"
not_ok "... which it would" promtool check metrics < "$T/wrong"

# --- a Prometheus that scrapes it

web=$(free_port)
sed "s/gpu1.example.org:7710, gpu2.example.org:7710/127.0.0.1:$control/
    s|rgpu.rules.yml|$contrib/&|
    s/scrape_interval: .*/scrape_interval: 1s/" "$contrib/prometheus.yml" > "$T/prometheus.yml"
ok "contrib/prometheus/prometheus.yml is a configuration" promtool check config "$T/prometheus.yml"
start prometheus prometheus --config.file="$T/prometheus.yml" --storage.tsdb.path="$T/tsdb" \
    --web.listen-address="127.0.0.1:$web" --log.level=warn
# What rate() needs: two scrapes with the program's numbers.
scraped()
{
    [ "$(curl -sG "http://127.0.0.1:$web/api/v1/query" --data-urlencode \
        'query=count_over_time(rgpu_tenant_bytes_total[30s]) >= 3' |
        json_value 'len(j["data"]["result"])' 2> /dev/null)" = 1 ]
}
ok "it scrapes the server" wait_for 60 scraped || diag "$(tail -n 5 "$T/prometheus.log")"
try 60 python3 "$py/dashboard.py" "http://127.0.0.1:$web" "$contrib/rgpu-dashboard.json" \
    "$contrib/rgpu.rules.yml"
is "$rc" 0 "every expression is asked for" || diag "$err"
is "$(grep -v '^ok ' <<< "$out")" "" \
    "each of the dashboard has a value, and those of the rules are right"
is "$(($(wc -l <<< "$out") >= 25))" 1 "... $(wc -l <<< "$out") expressions"
sed 's/rgpu_gpu_used_ratio/rgpu_gpu_usage/; s/rgpu_gpus_free{/rgpu_gpus_free{no=\\"where\\",/' \
    "$contrib/rgpu-dashboard.json" > "$T/wrong.json"
try 60 python3 "$py/dashboard.py" "http://127.0.0.1:$web" "$T/wrong.json" "$contrib/rgpu.rules.yml"
like "$(grep -v '^ok ' <<< "$out")" 'has no value sum\(.*no series of rgpu_gpu_usage ' \
    "... an expression of what is not there is found"
stop "$pid"

# --- ends

kill "$program"; wait "$program"
gone() { [ "$(metrics | grep -c "lease=\"" )" = "$(metrics | grep -c "lease=\"$lease\"")" ]; }
ok "the program's series end with its lease" wait_for 20 gone
is "$(value rgpu_leases_without_job)" 0 "no lease is without its job"
: > "$T/jobs"
without() { [ "$(value rgpu_leases_without_job)" = 1 ]; }
ok "Slurm has forgotten the job: a lease without one" wait_for 20 without
none() { [ "$(metrics | grep -c 'lease="')" = 0 ]; }
ok "... and no series of it, when rgpud has ended it" wait_for 20 none
wait_for 10 eval '[ "$(value rgpu_leases_without_job)" = 0 ]'
is "$(value rgpu_leases_without_job)" 0 "... after which all is well"

rgpud gpu2
api POST /v1/offers "{\"gpus\": 1, \"owner\": {$as_job}}"
api POST "/v1/offers/$(json 'j["id"]')/accept"
lease=$(json 'j["leases"][0]["id"][:8]')
like "$(metrics | grep '^rgpu_lease_info')" \
    "^rgpu_lease_info\{lease=\"$lease\",server=\"gpu2\"\} 1" \
    "without metrics_names a lease is a number"
unlike "$(metrics)" "physics|cn1|$(id -un)" "... and nobody is named"
done_testing
