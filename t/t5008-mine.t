#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a user asks in a job, and what scripts ask: rgpu list --mine, --server, JSON, and completion.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu

rgpud gpu1 'softgpu_devices = 2' 'softgpu_memory = "64M"'
one=$control data_one=$data
rgpud gpu2
clients "gpu1=$one" "gpu2=$control"

# --- in a job

try 20 "$rgpu" list --mine
like "$rc $err" '^1 rgpu: this process has no remote GPUs: RGPU_LEASE is not set' \
    "outside of a job: what is missing"
try 20 "$rgpu"
like "$rc $err" '^2 rgpu: A subcommand is required' "... where rgpu alone is wrong usage"
try 20 "$rgpu" run -n 2 -p 0.5 -m 16M --server gpu1 --wait 10s -- "$rgpu"
like "$rc $out" "^0 GPU +NAME +MEMORY +SHARE +SERVER +ADDRESS +LINK +LEASE
0 +rgpu software GPU +16.0 MiB +50% +gpu1 +127.0.0.1:$data_one +[0-9.]+ [mu]s +[0-9a-f]{8}
1 +rgpu software GPU +16.0 MiB +50% +gpu1 +127.0.0.1:$data_one +[0-9.]+ [mu]s +[0-9a-f]{8}\$" \
    "rgpu alone, in a job: its GPUs, as its programs see them, and how far they are"
ok "... in JSON, too" json_true '[0 < g["round_trip_us"] < 1e6 for g in j["gpus"]] == [True]' \
    <<< "$("$rgpu" run --server gpu1 --wait 10s -- "$rgpu" list --mine --json)"
cat > "$T/unreachable" <<END
{"version": 1, "servers": [{"name": "gpu9", "address": "127.0.0.1:$(free_port)",
 "lease": "00112233",
 "gpus": [{"index": 0, "uuid": "GPU-1", "name": "H100", "share": 100, "memory": 1073741824}]}]}
END
RGPU_LEASE=$T/unreachable try 20 "$rgpu" list --mine
like "$rc $out" "^0 .*H100 +1.0 GiB +100% +gpu9 +[0-9.:]+ +no answer +00112233\$" \
    "... and a server that does not answer is told as such"
try 20 "$rgpu" run -n 2 --server gpu1 --wait 10s -- sh -c \
    'echo $RGPU_GPUS $RGPU_SERVERS $RGPU_GPU_UUIDS
    secret=$(sed -n "s/.*\"secret\": \"\(.*\)\".*/\1/p" "$RGPU_LEASE")
    [ ${#secret} = 64 ] && env | grep -cF "$secret"'
like "$out" '^2 gpu1 GPU-[0-9a-f-]+,GPU-[0-9a-f-]+
0$' "variables name its GPUs, without the secret"
same='[(g["number"], g["memory"], g["share"], g["server"]) for g in j["gpus"]]'
is "$("$rgpu" run -n 2 -p 0.5 -m 16M --server gpu1 --wait 10s -- "$rgpu" list --mine --json |
    json_value "str($same)")" \
    "[(0, 16777216, 50, 'gpu1'), (1, 16777216, 50, 'gpu1')]" "the same as JSON"
unlike "$("$rgpu" run --wait 10s -- "$rgpu" list --mine --json)" secret "... without the secret"
echo '{"servers": [{"name": "gpu1"}]}' > "$T/damaged"
RGPU_LEASE=$T/damaged try 20 "$rgpu" list --mine
like "$rc $err" "^1 rgpu: $T/damaged is no lease file: .*address" "a damaged lease file is named"
RGPU_LEASE=$T/none try 20 "$rgpu" list --mine
like "$rc $err" "^1 rgpu: $T/none: No such file" "... and one that is gone"

# --- one server

for command in list top; do
    try 20 "$rgpu" "$command" --json --server gpu2
    is "$rc $(json_value '[s["name"] for s in j["servers"]]' <<< "$out")" "0 gpu2" \
        "rgpu $command --server asks this server alone"
done
try 20 "$rgpu" leases --server gpu2,gpu1,gpu2 --json
is "$rc $(json_value 'j["unreachable"]' <<< "$out")" "0 " "several servers, one twice"
try 20 "$rgpu" list --server gpu3
like "$rc $err" '^1 rgpu: .*has no server gpu3; it has gpu1, gpu2' "a server that is not there"

# --- JSON

is "$("$rgpu" drain gpu1:1 --json | json_value '[j["server"], j["gpu"], str(j["drained"])]')" \
    "gpu1 1 True" "a drain as JSON"
is "$("$rgpu" resume gpu1:1 --json | json_value '[j["server"], j["gpu"], str(j["drained"])]')" \
    "gpu1 1 False" "... and its end"
is "$("$rgpu" request -n 2 -o "$T/held" --json | json_value '[j["file"], str(len(j["gpus"]))]')" \
    "$T/held 2" "a request as JSON"
"$rgpu" release --file "$T/held" > "$T/released"
is "$(cat "$T/released")" "1 released" "what it holds is released"

# --- completion

complete_with_bash()  # WORD...: what follows the last one
{
    bash -c 'source <("$1" completion bash)
        shift
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
        _rgpu
        echo ${COMPREPLY[*]}' - "$rgpu" "$@"
}
is "$(complete_with_bash rgpu le)" "leases lend" "bash completes commands"
is "$(complete_with_bash rgpu slurm se)" "setup" "... those of a group"
is "$(complete_with_bash rgpu list --m)" "--mine" "... options of a command"
like "$(complete_with_bash rgpu -c file list --s)" "^--server$" "... behind rgpu's own options"
like "$(complete_with_bash rgpu run -n 1 -- tru)" '(^| )true( |$)' "... the command behind --"
is "$(complete_with_bash rgpu release --file le)" "" "... and leaves files to the shell"
if command -v zsh > /dev/null; then
    ok "zsh takes its own" zsh -n <("$rgpu" completion zsh)
else
    like "$("$rgpu" completion zsh)" "^#compdef rgpu" "zsh has its own"
fi
try 20 "$rgpu" completion fish
like "$rc $err" '^2 rgpu: .*fish.*bash' "another shell is refused, with those that there are"
done_testing
