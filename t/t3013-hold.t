#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# GPUs held in a lease file, GPUs of a certain kind, GPUs out of the pool and back, and jobs that
# Slurm has forgotten.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu
free() { "$rgpu" list | tail -n 1; }
all_free() { free | awk '{ exit !($1 == $3) }'; }

rgpud gpu1 'softgpu_memory = "64M"'
first=$control server=$pid
# gpu2's driver says that it is an older one.
cat > "$T/worker" <<EOF
#!/bin/sh
[ "\$1" = --inventory ] || exec "$build/libexec/rgpu-worker" "\$@"
"$build/libexec/rgpu-worker" --inventory |
    sed 's/"driver_release":"[^"]*"/"driver_release":"570.9"/'
EOF
chmod 755 "$T/worker"
rgpud gpu2 'softgpu_memory = "128M"' 'softgpu_compute_capability = "9.0"' "worker = \"$T/worker\""
clients "gpu1=$first" "gpu2=$control"
sed -i 's/^term = .*/term = "60s"/' "$T/rgpu.conf"

# --- held

cd "$T" || exit 1
try 20 "$rgpu" request -n 2 -o gpus --server gpu1
is "$rc $out" "0 gpus: 2 GPUs of gpu1" "rgpu request holds two GPUs of a server"
is "$(stat -c %a gpus)" 400 "... in a file of the user's own"
is "$(free)" "2 of 4 GPUs free" "... which nobody else gets"
try 20 "$rgpu" run --lease gpus -- sh -c 'echo $RGPU_LEASE; exit 5'
is "$rc $out" "5 $T/gpus" "a command runs with them"
is "$(free)" "2 of 4 GPUs free" "... and they stay held"
for option in -n2 --span --share=50; do
    try 20 "$rgpu" run --lease gpus $option -- true
    like "$rc $err" '^2 rgpu: --[a-z]+ chooses GPUs, and --lease gpus has those of rgpu request' \
        "which ones is not to be said again: $option"
done
for option in --min-driver --share --server --wait; do
    try 20 "$rgpu" run $option "" -- true
    like "$rc $err" "^2 .*$option.* it is empty" "an empty $option is refused"
done
try 20 "$rgpu" request -o gpus
like "$rc $err" '^1 .*gpus is there already' "a lease file is not overwritten"
is "$(free)" "2 of 4 GPUs free" "... and nothing was leased for it"
secret=$(python3 -c 'import json; print(json.load(open("gpus"))["servers"][0]["secret"])')
kill -9 "$server"; wait "$server" 2>/dev/null
rm "$T/gpu1.ready"; keep=$control
control=$first; rgpud gpu1 'softgpu_memory = "64M"' "control_port = $first"; server=$pid
is "$(free)" "2 of 4 GPUs free" "... and a restart of rgpud changes nothing"
try 20 "$rgpu" release --file gpus
is "$rc $out" "0 1 released" "rgpu release gives them back"
is "$(free) $([ -e gpus ] && echo there)" "4 of 4 GPUs free " "... and the file goes"
try 20 "$rgpu" release --file /etc/passwd
like "$rc $err" '^1 .*is no lease file' "what is no lease file is not released"
try 20 "$rgpu" request -t 2s -o short
ok "a term ends a request by itself" wait_for 10 all_free

# --- of a kind

try 20 "$rgpu" run --min-cc 9.0 -v -- true
like "$rc $err" '^0 rgpu: gpu2 ' "--min-cc: from the server that has it"
try 20 "$rgpu" run --min-memory 100M -v -- true
like "$rc $err" '^0 rgpu: gpu2 ' "--min-memory: the same"
try 20 "$rgpu" run --gpu-name SOFTWARE -v -- true
is "$rc" 0 "--gpu-name: whatever the case"
try 20 "$rgpu" run --gpu-name H100 -- true
like "$rc $err" '^121 .*0 of its 2 GPUs are of the kind that is asked for' \
    "no such GPU: never, and why"
try 20 "$rgpu" run --min-cuda 99.0 -- true
is "$rc" 121 "--min-cuda: never"
try 20 "$rgpu" run --min-cuda 12.4 -- true
is "$rc" 0 "--min-cuda: as new as needed"
is "$("$rgpu" list --json | json_value '[s["driver_release"] for s in j["servers"]]')" \
    "580.65.06 570.9" "rgpu list --json: each server's driver"
is "$("$rgpu" list | awk '$1 ~ /^gpu/ { print $1, $NF }' | sort -u | xargs)" \
    "gpu1 580.65.06 gpu2 570.9" "... and rgpu list"
try 20 "$rgpu" run --min-driver 570.86.10 -v -- true
like "$rc $err" '^0 rgpu: gpu1 ' "--min-driver: 570.9 is older than 570.86.10"
try 20 "$rgpu" run --min-driver 570 --server gpu2 -v -- true
like "$rc $err" '^0 rgpu: gpu2 ' "... and newer than 570"
try 20 "$rgpu" run --min-driver 600 -- true
like "$rc $err" \
    '^121 .*gpu1: its driver is 580.65.06, 600 or newer is wanted; gpu2: its driver is 570.9, ' \
    "... never, and why"
try 20 "$rgpu" run --min-driver new -- true
like "$rc $err" '^2 .*--min-driver: "new" is no version: write it like 570.86.10' \
    "... a wrong one is told"
# An rgpud of before the filter refuses what it does not know.
start old python3 "$py/old_rgpud.py" "$T/old.port"
wait_for 20 test -s "$T/old.port"
cp "$RGPU_CONF" "$T/with-old.conf"
printf '[[server]]\nname = "old"\naddress = "127.0.0.1:%s"\n' \
    "$(cat "$T/old.port")" >> "$T/with-old.conf"
try 20 env RGPU_CONF="$T/with-old.conf" "$rgpu" run --min-driver 580 -v -- true
like "$rc $err" '^0 rgpu: gpu1 ' "a server of an older rgpu beside it: from one that tells"
try 20 env RGPU_CONF="$T/with-old.conf" "$rgpu" run --min-driver 580 --server old -- true
like "$rc $err" \
    "^121 .*old: its rgpu is older and does not tell its driver's release, 580 or newer is wanted" \
    "... never from itself, and why"
try 20 env RGPU_CONF="$T/with-old.conf" "$rgpu" run --min-cc 1.0 --wait 0 --server old -- true
like "$rc $err" '^122 .*old: in use' "... other filters it knows"
stop "$pid"
uuid=$("$rgpu" list --json | json_value 'j["servers"][1]["gpus"][1]["uuid"]')
try 20 "$rgpu" run --uuid "$uuid" -v -- true
like "$rc $err" '^0 rgpu: gpu2 GPU 1 ' "--uuid: that GPU"
try 20 "$rgpu" run -n 2 --uuid "$uuid" -- true
is "$rc" 121 "two of one UUID: never"
try 20 "$rgpu" run --server gpu9 -- true
like "$rc $err" '^2 .*no \[\[server\]\] of rgpu.conf is "gpu9"' "--server: one that is not there"
try 20 "$rgpu" run --min-cc eight -- true
like "$rc $err" '^2 .*--min-cc: "eight" is no version: write it like 8.0' "a wrong version is told"

# --- drained

try 20 "$rgpu" drain gpu2 --reason 'new fans'
like "$rc $out" "^0 gpu2 is drained: nothing more of it is lent" "a server is drained, and says so"
like "$("$rgpu" list)" 'gpu2 .*\[drained: new fans\]' "... rgpu list says why"
is "$(free)" "2 of 4 GPUs free" "... and counts it out"
try 20 "$rgpu" run --wait 0 --server gpu2 -- true
like "$rc $err" '^122 .*2 drained' "... nothing of it is lent"
try 20 "$rgpu" run -n 2 -v -- true
like "$rc $err" '^0 rgpu: gpu1' "... only of others"
"$rgpu" resume gpu2
ok "it is resumed" all_free
try 20 "$rgpu" resume gpu2
like "$rc $err" '^1 .*the server is not drained' "... once"
"$rgpu" drain gpu1:1
kill -9 "$server"; wait "$server" 2>/dev/null
rm "$T/gpu1.ready"; rgpud gpu1 'softgpu_memory = "64M"' "control_port = $first"; server=$pid
try 20 "$rgpu" run --wait 0 -n 2 --server gpu1 -- true
is "$rc" 122 "one GPU is drained, over a restart too"
try 20 "$rgpu" run --server gpu1 -v -- true
like "$rc $err" '^0 rgpu: gpu1 GPU 0 ' "... the other is lent"
try 20 "$rgpu" drain gpu1:7
like "$rc $err" '^1 .*this server has no GPU 7' "a GPU that is not there is told"
"$rgpu" resume gpu1:1
ok "all are in the pool again" all_free

# --- jobs that Slurm does not know any more

cat > "$T/squeue" <<'END'
#!/bin/sh
echo "$*" >> "$(dirname "$0")/asked"
cat "$(dirname "$0")/jobs" || exit 1
END
chmod 755 "$T/squeue"
# Whoever rgpud is writes there.
(umask 0; : > "$T/asked")
rgpud gpu3 "squeue = \"$T/squeue\"" 'slurm_check = "1s"'
lease()
{
    api POST /v1/offers "{\"gpus\": 1, \"owner\": {\"uid\": 0, \"job\": \"$1\", \"node\": \"cn1\"}}"
    api POST "/v1/offers/$(json 'j["id"]')/accept"
}
jobs() { api GET /v1/leases; json 'sorted(l["owner"]["job"] for l in j["leases"])'; }
jobs_are() { [ "$(jobs)" = "$1" ]; }
asked() { [ "$(wc -l < "$T/asked" 2>/dev/null || echo 0)" -ge "$1" ]; }
lease 17; lease 18
ok "rgpud asks Slurm while jobs hold leases" wait_for 10 asked 3
is "$(jobs)" "['17', '18']" "... and ends none where it gets no answer"
printf '17 RUNNING\n18 COMPLETED\n19 PENDING\n' > "$T/jobs"
ok "the lease of a job that has ended goes" wait_for 10 jobs_are "['17']"
: > "$T/jobs"
ok "... and that of a job which nobody knows" wait_for 10 jobs_are "[]"
like "$(cat "$T/gpu3.log")" 'ended, as Slurm does not know its job any more' "the log says so"
done_testing
