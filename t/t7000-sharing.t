#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tenants of one GPU get their shares: the short forms of what t/long/t7001-shares.t and its like
# measure. Bars are wider here, as a few seconds hold few turns and other tests run beside it.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
. "$(dirname "$0")/lib/sharing.sh"

server 'qos_weights = ["high=3"]'

# --- three always-busy tenants; `rgpu top` and Prometheus meanwhile

tenants_start 5 "25-100 us=200" "35-100 us=2000 mode=threads" "40-100 us=20000"
shown() { busy_tenants 3; }
ok "rgpu top --json shows three tenants that are given time and launch" wait_for 8 shown
try 10 "$build/bin/rgpu" top --once
like "$out" "(runs|waits).* 25-100% +25\.0%.*[0-9]+\.[0-9]%.*MiB" \
    "rgpu top --once shows what each wants, is due and is given"
metrics=$(curl -s "http://127.0.0.1:$control/metrics")
for name in rgpu_share_least rgpu_share_most rgpu_share_due rgpu_share_given \
    rgpu_share_owed_seconds rgpu_tenant_gpu_seconds_total \
    rgpu_tenant_launches_total rgpu_tenant_bytes_total rgpu_tenant_memory_bytes \
    rgpu_tenant_longest_kernel_seconds; do
    like "$metrics" "$name\{gpu=\"GPU-[^\"]*\",lease=\"[0-9a-f]{8}\"" "Prometheus has $name"
done
unlike "$metrics" "$(id -un)" "... and names no user"
tenants_wait
is "$rc" 0 "all three end well" || diag "$out"
at_most overlap 0.5 "never are two on the GPU at once (percent of the time)"
total=$(got "t1.share + t2.share + t3.share")
for i in 1 2 3; do
    share=$(got "[25, 35, 40][$i - 1]")
    # Of what all three got: on a machine with other load, gaps between turns are nobody's.
    within "100 * t$i.share / $total" "$share" 6 "tenant $i of $share with its own length of kernel"
done

# --- a ceiling

tenants 3.5 "0.5 us=1000"
at_most t1.share 53 "a bare 50 is a hard ceiling on an idle GPU"
ok "... which is nearly reached: $(got t1.share)" awk "BEGIN { exit !($(got t1.share) >= 38) }"

# --- idle time is the others'

tenants 4.5 "50-100 us=1000" "50-100 us=1000 away=1-2.5"
look 1.2 2.4 1
ok "who is alone for a while has the GPU: $(got t1.share)" awk \
    "BEGIN { exit !($(got t1.share) >= 80) }"
look 2.6 4.4 1
within "100 * t2.share / (t1.share + t2.share)" 50 12 "who comes back has its share at once"

# --- best effort

tenants 3.5 "50-100 us=1000 away=2-3.2" "0-100 us=1000"
look 0.5 2 1
at_most t2.share 8 "best effort does not run beside a busy tenant"
look 2.2 3.1 0.5
ok "... and fills its gaps: $(got t2.share)" awk "BEGIN { exit !($(got t2.share) >= 75) }"

# --- a program of several processes is one tenant

cat > "$T/two" <<END
#!/bin/sh
"$build/cuda/tenant-static" file=$T/notes.fork "\$@" & "$build/cuda/tenant-static" "\$@"; wait
END
chmod +x "$T/two"
begin=$(python3 -c 'import time; print(time.time() + 1.5)')
"$build/bin/rgpu" run -p 50-100 -m 32M -- "$T/two" begin="$begin" seconds=3 us=1000 \
    file="$T/notes.1" > /dev/null & first=$!
"$build/bin/rgpu" run -p 50-100 -m 32M -- "$build/cuda/tenant-static" begin="$begin" seconds=3 \
    us=1000 file="$T/notes.2" > /dev/null & second=$!
wait $first $second
cat "$T/notes.fork" >> "$T/notes.1"
tenant_files=("t1=$T/notes.1" "t2=$T/notes.2")
look 0.5 3 2
within "100 * t1.share / (t1.share + t2.share)" 50 8 \
    "two processes of a lease have one share together"

# --- what options and requests refuse

try 10 "$build/bin/rgpu" run -p 0-100 -- true
like "$rc $err" '2 .*add --memory' "best effort needs its memory said"
try 10 "$build/bin/rgpu" run -p 100-30 -- true
like "$rc $err" '2 .*the least comes first' "a range the wrong way round"
api POST /v1/offers '{"gpus": 1, "share": 0, "owner": {"uid": 0, "host": "h", "pid": 1}}'
is "$code" 400 "a share of 0 alone is refused"
api POST /v1/offers \
    '{"gpus": 1, "share": 0, "most": 100, "owner": {"uid": 0, "host": "h", "pid": 1}}'
like "$code $body" '400.*memory must be given' "a share from 0 without memory is refused"
request='{"gpus": 1, "share": 0, "most": 100, "memory": 1048576, '
request+='"owner": {"uid": 0, "host": "h", "pid": 1, "qos": "high"}}'
api POST /v1/offers "$request"
is "$(json 'j["answer"], j["gpus"][0]["share"], j["gpus"][0]["most"]')" "('now', 0, 100)" \
    "... and with it offered"
done_testing
