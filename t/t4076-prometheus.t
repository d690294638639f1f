#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Debian's Prometheus watches a whole cluster while jobs run: each panel of the dashboard shows
# something, and alerts fire when there is what they are for.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
contrib=$root/contrib/prometheus

for tool in promtool prometheus; do
    command -v $tool > /dev/null || skip_all "$tool is missing: apt-get install prometheus"
done
cluster_up --accounting --rgpud 'metrics_names = true' --rgpud 'slurm_check = "5s"'
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"
rgpu list | grep -q '^gpu1 .*rgpu software GPU' || skip_all "gpu1 has real GPUs here"

# Panels that have nothing to show here, and why.
cat > "$T/empty" <<'END'
Power: software GPUs have no NVML, so that nobody reads their power
Temperature: the same
END
# Alerts that are not caused here, and why; contrib's unit tests have them fire.
cat > "$T/not-caused" <<'END'
RgpuHealthFatal: needs NVML, and a GPU that is broken
RgpuHealthOld: needs an hour
RgpuDiskFull: needs a full disk, which is that of other tests, too
END

web=$(free_port)
targets=$(sed -n 's/^control_port = /127.0.0.1:/p' "$cluster"/etc/gpu[12].conf | paste -sd,)
sed "s/gpu1.example.org:7710, gpu2.example.org:7710/$targets/
    s|rgpu.rules.yml|$contrib/&|
    s/scrape_interval: .*/scrape_interval: 1s/" "$contrib/prometheus.yml" > "$T/prometheus.yml"
ok "contrib/prometheus/prometheus.yml, with the cluster's servers" \
    promtool check config "$T/prometheus.yml"
start prometheus prometheus --config.file="$T/prometheus.yml" --storage.tsdb.path="$T/tsdb" \
    --web.listen-address="127.0.0.1:$web" --log.level=warn
# ask QUERY EXPRESSION: a Python expression over each series r of the answer
ask()
{
    curl -sG "http://127.0.0.1:$web/api/v1/query" --data-urlencode "query=$1" |
        json_value "[$2 for r in j['data']['result']]" 2> /dev/null
}
alert()
{
    python3 "$py/dashboard.py" "http://127.0.0.1:$web" --alert "$1" "$contrib/rgpu.rules.yml"
}
dashboard()
{
    try 60 python3 "$py/dashboard.py" "http://127.0.0.1:$web" "$contrib/rgpu-dashboard.json" \
        "$contrib/rgpu.rules.yml" "$T/empty"
}

# --- a job that computes

submitted -n 1 --gres=rgpu:1 --wrap "exec '$build/cuda/tenant-static' us=1000 seconds=600 \
    file='$T/notes'"
busy=$job
ok "a job runs" wait_for 30 is_state "$busy" RUNNING
# What rate() needs: some scrapes with the program's numbers. The share of a minute is not there
# at once.
scraped()
{
    [[ $(ask 'count_over_time(rgpu_tenant_bytes_total[30s]) >= 3' 1) = 1 &&
        $(ask 'rgpu_share_given{window="1m"} > 0.01' 1) = 1 ]]
}
ok "Prometheus sees its program" wait_for 90 scraped ||
    diag "$(tail -n 5 "$T/prometheus.log")"
dashboard
is "$rc" 0 "every expression is asked for" || diag "$err"
is "$(grep -v '^ok ' <<< "$out")" "" "each panel has a value, or is known to have none here"
is "$(($(wc -l <<< "$out") >= 25))" 1 "... $(wc -l <<< "$out") expressions"
sed -i '/^Power/d' "$T/empty"
dashboard
like "$(grep -v '^ok ' <<< "$out")" '^no series of rgpu_gpu_power_watts rgpu_gpu_power_watts' \
    "... which must be said of each"
is "$(ask 'count(up{job="rgpu"} == 1)' 'r["value"][1]')" 2 "both servers answer"
is "$(ask 'rgpu_lease_info' '(r["metric"]["slurm_job"], r["metric"]["user"],
    r["metric"]["account"], r["metric"]["node"])')" "('$busy', '$(id -un)', 'root', 'cn1')" \
    "the lease is known by its job, user, account and node"
used=$(python3 - "$contrib/rgpu-dashboard.json" <<< 'import json, sys
for panel in json.load(open(sys.argv[1]))["panels"]:
    if panel["title"] == "Used by job":
        print(panel["targets"][0]["expr"].replace("$server", ".*"))')
is "$(ask "$used" 'r["metric"]["slurm_job"]')" "$busy" "what is used is this job's"
not_ok "no alert for a lease that is used" alert RgpuShareIdle

# --- what alerts are for

caused=
# fires ALERT NAME: within a minute
fires()
{
    caused+=" $1"
    ok "$1: $2" wait_for 60 alert "$1"
}
submitted -n 1 --gres=rgpu:1 --wrap "$(until_file "$T/idle")"
idle=$job
ok "another job runs, and does nothing with its GPU" wait_for 30 is_state "$idle" RUNNING
fires RgpuShareIdle "the idle lease"
is "$(ask '(rgpu_lease_share > 0)
    unless on (server, gpu, lease) (rgpu_share_given{window="1m"} > 0.01)' 1)" 1 \
    "... that one alone"
touch "$T/idle"
scancel "$busy"
ok "both give their GPUs back" wait_for 30 all_free

not_ok "no GPU is drained" alert RgpuGpuDrained
rgpu drain gpu1:0 -r "to be looked at" > "$T/drain" 2>&1 || diag "$(cat "$T/drain")"
fires RgpuGpuDrained "a GPU that is drained"
rgpu resume gpu1:0 > "$T/drain" 2>&1
not_ok "each lease has its job" alert RgpuLeaseWithoutJob
# A slurmctld that has lost what it knew.
submitted -n 1 --gres=rgpu:1 --wrap "$(until_file "$T/forgotten")"
ok "a third job runs" wait_for 30 is_state "$job" RUNNING
crash slurmctld
daemon slurmctld -c
fires RgpuLeaseWithoutJob "a lease of a job that Slurm does not know"
touch "$T/forgotten"
not_ok "both servers answer" alert RgpuServerSilent
crash rgpud.gpu2
fires RgpuServerSilent "a server is gone"

is "$(sed -n 's/^ *- alert: //p' "$contrib/rgpu.rules.yml" | sort)" \
    "$({ tr ' ' '\n' <<< "${caused# }"; cut -d: -f1 "$T/not-caused"; } | sort)" \
    "each alert was caused, or there is a reason why not"
done_testing
