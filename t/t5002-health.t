#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rgpu health, and a server that takes itself out of the pool while a check is FATAL.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu

# The worker program, but for what NVML would say.
cat > "$T/worker" <<EOF
#!/bin/sh
[ "\$1" = --readings ] && exec cat "$T/readings"
exec "$build/libexec/rgpu-worker" "\$@"
EOF
chmod 755 "$T/worker"
uuids=()
readings()  # COMPUTE MODE, TEMPERATURE of the first GPU
{
    printf '{"driver": "580.65.06", "cuda": 13000, "gpus": [%s,%s]}\n' \
        "$(printf '{"index": 0, "uuid": "%s", "compute_mode": %s, "temperature": %s}' \
        "${uuids[0]:-a}" "$1" "$2")" \
        "$(printf '{"index": 1, "uuid": "%s", "compute_mode": 0, "temperature": 40}' \
        "${uuids[1]:-b}")" > "$T/new" && mv "$T/new" "$T/readings"
}
of()
{
    json "[(c['verdict'], c['of']) for h in j['hosts'] if h['host'] == '$1'
        for c in h['checks'] if c['check'] == '$2']" "$out"
}
free() { "$rgpu" list | tail -n 1; }
nothing_free() { [ "$(free)" = "0 of 2 GPUs free" ]; }
all_free() { [ "$(free)" = "2 of 2 GPUs free" ]; }

# --- a server without NVML

rgpud gpu1 'health_check = "1s"'
clients "gpu1=$control"
try 60 "$rgpu" health --json
ok "rgpu health ends with 0 or 3: a software server is not FATAL" [ "$rc" = 0 -o "$rc" = 3 ] ||
    diag "$out $err"
is "$(of gpu1 temperature)" "[('SKIPPED', '')]" "its GPU checks are SKIPPED, never PASS"
expression='sorted(set(c["value"] for c in j["hosts"][1]["checks"] if c["check"] in ("ECC", "P2P", '
expression+='"GPUs", "PCIe width")))'
is "$(json "$expression" "$out")" \
    "['its GPUs are software, which NVML does not know']" "... with the reason"
for check in 'control port' 'data port' version; do
    is "$(of gpu1 "$check")" "[('PASS', '')]" "the way there: $check"
done
expression='[c["check"] for c in j["hosts"][1]["checks"] if c["verdict"] in ("PASS", "MARGINAL")'
expression+=' and c["check"] in ("clock", "latency", "path MTU", "bandwidth")]'
is "$(json "$expression" "$out")" \
    "['clock', 'latency', 'path MTU', 'bandwidth']" "clock, latency, MTU and bandwidth are measured"
is "$(json '[h["totals"]["FATAL"] for h in j["hosts"]]' "$out")" "[0, 0]" "totals of each host"
expression='all(c["cure"] for h in j["hosts"] for c in h["checks"] if c["verdict"] in ("MARGINAL", '
expression+='"FATAL"))'
is "$(json "$expression" "$out")" True "whatever is wrong comes with what to do"
try 60 "$rgpu" health --all
like "$out" 'this host \(.*\): [0-9]+ PASS, [0-9]+ MARGINAL, [0-9]+ SKIPPED, 0 FATAL' \
    "as text: totals for this host"
like "$out" '
gpu1: [0-9]+ PASS' "... and for the server"
like "$out" 'PASS +open files' "--all shows what passes"
try 60 "$rgpu" health --local --json
is "$(json 'len(j["hosts"])' "$out")" 1 "--local asks no server"
try 20 "$rgpu" health --server gpu9
like "$rc $err" '^2 .*gpu9' "--server: one that is not there"
stop "$pid"
try 60 "$rgpu" health
is "$rc" 4 "a server that is down: FATAL, and the status says so"
like "$out" 'FATAL +control port +.*127.0.0.1:'"$control"': Connection refused' \
    "... with what was found"
like "$out" 'systemctl status rgpud' "... and what to do"

# --- a server with NVML, made up

readings 0 40
rgpud gpu2 "worker = \"$T/worker\"" 'health_check = "1s"'
clients "gpu2=$control"
read -ra uuids < <("$rgpu" list --json | json_value '[g["uuid"] for g in j["servers"][0]["gpus"]]')
like "$("$rgpu" list)" 'drained: health: GPUs: GPU 0, GPU 1 does not answer' \
    "GPUs that NVML does not know: nothing is lent, and list says why"
readings 0 40
ok "it comes back by itself" wait_for 20 all_free
like "$(cat "$T/gpu2.log")" 'FATAL checks pass again' "... and the log says so"
start job "$rgpu" run -n 1 -- sleep 60
job=$pid
held() { "$rgpu" leases | grep -q 'pid '; }
wait_for 10 held
readings 2 40
ok "compute mode PROHIBITED: it takes itself out" wait_for 20 nothing_free
like "$("$rgpu" list)" 'drained: health: compute mode of GPU 0: PROHIBITED' "... list says why"
ok "... a job that runs goes on" held
try 20 "$rgpu" run --wait 0 -- true
like "$rc $err" '^122 .*gpu2: health: compute mode of GPU 0: PROHIBITED' \
    "... and whoever asks is told"
try 60 "$rgpu" health
is "$rc" 4 "rgpu health ends with 4"
like "$out" 'FATAL +compute mode of GPU 0 +PROHIBITED \(DEFAULT\)
 +nvidia-smi -c DEFAULT' "... and says what to do"
sentence='health: compute mode of GPU 0: PROHIBITED .*nothing is lent until it passes; nvidia-smi '
sentence+='-c DEFAULT'
like "$(cat "$T/gpu2.log")" "$sentence" "... as the log does"
api GET /metrics
like "$body" 'rgpu_health_checks\{verdict="FATAL",server="gpu2"\} 1' "... and Prometheus"
kill "$job"; wait "$job"
readings 0 88
ok "back to DEFAULT: it is lent again" wait_for 20 all_free
hot()
{
    try 60 "$rgpu" health --json
    [ "$(of gpu2 temperature)" = "[('MARGINAL', 'GPU 0'), ('PASS', 'GPU 1')]" ]
}
ok "88 C is MARGINAL of that GPU, and closes nothing" wait_for 20 hot
is "$rc" 3 "... the status says so"
echo nonsense > "$T/readings"
skipped() { try 60 "$rgpu" health --json; [ "$(of gpu2 'compute mode')" = "[('SKIPPED', '')]" ]; }
ok "readings that are none: SKIPPED" wait_for 20 skipped
ok "... and it lends" all_free

readings 2 40
rgpud gpu3 "worker = \"$T/worker\"" 'health_check = "1s"' 'health_ignore = ["compute mode", "GPUs"]'
clients "gpu3=$control"
ok "health_ignore: it lends all the same" all_free
try 60 "$rgpu" health
like "$rc $out" '^4 .*FATAL +GPUs' "... and is told"
rgpud gpu4 "worker = \"$T/worker\"" 'health_check = "0"'
clients "gpu4=$control"
ok "health_check = 0: it does not look" all_free
try 60 "$rgpu" health --json
is "$(of gpu4 health)" "[('SKIPPED', '')]" "... and rgpu health says so"
sed -i "s/^name = \"gpu4\"/name = \"other\"/" "$T/rgpu.conf"
try 60 "$rgpu" health --json
is "$(of other version)" "[('FATAL', '')]" "a server that calls itself otherwise is told"

# --- all servers together

rgpud gpu5 'max_kernel = "5s"' 'health_check = "1s"'
fifth=$control
clients "gpu5=$fifth"
try 60 "$rgpu" health --json
is "$(of gpu5 'stream memory operations')" "[('INFO', 'GPU 0'), ('INFO', 'GPU 1')]" \
    "stream memory operations are told as the driver reports them"
is "$(of gpu5 'host pointers')" "[('INFO', 'GPU 0'), ('INFO', 'GPU 1')]" "... and host pointers"
is "$(of gpu5 'NCCL and cuDNN')" "[('INFO', 'libnccl.so.2'), ('INFO', 'libcudnn.so.9')]" \
    "... and cuDNN and NCCL"
is "$(of gpu5 network)" "[('PASS', '')]" "server and node share a subnet"
is "$(of gpu5 'host memory')" "[('SKIPPED', '')]" "software GPUs' memory is the host's own"
is "$(of gpu5 'driver release')" "[('SKIPPED', '')]" "... and without NVML no release is told"
rgpud gpu6 'max_kernel = "6s"' 'health_check = "1s"'
clients "gpu5=$fifth" "gpu6=$control"
try 60 "$rgpu" health --all
is "$rc" 3 "servers whose settings differ are MARGINAL"
told='MARGINAL +settings +encrypt auto.* max_kernel 5s.* on gpu5; .* max_kernel 6s.* on gpu6 '
like "$out" "$told" "... with what each has"
like "$out" 'set the same below \[rgpud\]' "... and what to do"
for check in versions drivers kinds; do
    is "$(grep -cE "^  PASS +$check " <<< "$out")" 1 \
        "their $check are equal, and it says so"
done
if compgen -G '/dev/nvidia*' > /dev/null; then
    skip "this host has something of NVIDIA's" 2
else
    clients "$(hostname -s)=$control"
    try 60 "$rgpu" health --local
    is "$rc" 4 "a host that is to lend NVIDIA's GPUs and has none is FATAL"
    like "$out" "FATAL +driver of this host +this host has nothing of NVIDIA's .*
 .*driver = \"softgpu\"" "... with what to do"
fi

# --- what the worker program reads of NVML: one that is made up, with two GPUs and what NVML 580
# has

mkdir "$T/nvml"
ok "an NVML is made up" g++ -shared -fPIC -o "$T/nvml/libnvidia-ml.so.1" \
    "$root/t/lib/made_up_nvml.cc"
try 20 env LD_LIBRARY_PATH="$T/nvml" "$build/libexec/rgpu-worker" --readings
is "$(json '[(k, j[k]) for k in ("driver", "cuda")]' "$out")" \
    "[('driver', '580.65.06'), ('cuda', 13000)]" "rgpu-worker --readings: versions"
wanted="[('compute_mode', 3), ('ecc_uncorrected', 10), ('index', 1), ('nvlink', [1, 0]), ('p2p', "
wanted+="[5, 0]), ('pci', '00000000:3C:00.0'), ('persistence', 1), ('power', 62500), "
wanted+="('shutdown', 92), "
wanted+="('slowdown', 87), ('temperature', 41), ('uuid', 'GPU-1')]"
is "$(json '[sorted(g.items()) for g in j["gpus"]][1]' "$out")" "$wanted" \
    "... each GPU; what NVML does not tell is left out"
try 20 env MISMATCH=1 LD_LIBRARY_PATH="$T/nvml" "$build/libexec/rgpu-worker" --readings
is "$(json 'j["why_not"], j["broken"]' "$out")" \
    "('NVML does not start: Driver/library version mismatch', 1)" \
    "... an NVML that does not start, and why"
try 20 env LD_LIBRARY_PATH="$T/nvml" "$build/libexec/rgpu-worker" --readings
is "$(json '"ecc_uncorrected" in j["gpus"][0]' "$out")" False \
    "... and errors of a GPU whose ECC is off"
ok "a driver is made up" g++ -shared -fPIC -o "$T/nvml/libcuda.so.1" "$root/t/lib/made_up_cuda.cc"
try 20 env RGPU_DRIVER="$T/nvml/libcuda.so.1" LD_LIBRARY_PATH="$T/nvml" \
    "$build/libexec/rgpu-worker" --inventory
is "$out" '{"driver_version":12080,"driver_release":"580.65.06","gpus":[]}' \
    "rgpu-worker --inventory: the driver's release is NVML's word"
try 20 env MISMATCH=1 RGPU_DRIVER="$T/nvml/libcuda.so.1" LD_LIBRARY_PATH="$T/nvml" \
    "$build/libexec/rgpu-worker" --inventory
is "$out" '{"driver_version":12080,"driver_release":"","gpus":[]}' \
    "... and not known where that does not start"
try 20 env RGPU_DRIVER="$softgpu/libcuda.so.1" LD_LIBRARY_PATH="$T/nvml" \
    "$build/libexec/rgpu-worker" --readings
like "$out" 'its GPUs are software' "... nothing where the driver is the software GPU's"
try 20 "$build/libexec/rgpu-worker" --readings
like "$rc $out" '^0 .*(why_not|gpus)' "... and where there is no NVML it says so"
done_testing
