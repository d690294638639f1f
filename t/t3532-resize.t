#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rgpu resize: a lease whose program runs gets another share and other memory. The program goes on,
# is told at once, and gets what it may have now and no more; what cannot be is refused with the
# number, and changes nothing, on however many servers.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu
program=$build/cuda/resized-static
[ -x "$program" ] || skip_all "$program is not built; run make cuda"
mib=$((1 << 20))

# A program with a lease of its own: NAME, and what rgpu request is told. $lease is its id.
begin()
{
    local name=$1
    shift
    try 20 "$rgpu" request --wait 10s -o "$T/$name.lease" "$@" || bail "no lease: $err"
    lease=$(json_value 'j["servers"][0]["lease"]' < "$T/$name.lease")
    mkfifo "$T/$name.fifo"
    RGPU_LEASE=$T/$name.lease LD_LIBRARY_PATH=$interpose start "$name" "$program" "$T/$name.fifo"
    exec {lines}> "$T/$name.fifo"
    wait_for 20 grep -q ready "$T/$name.log" || bail "$(cat "$T/$name.log")"
}
# What the program says to a line.
say()  # NAME LINE
{
    local before
    before=$(wc -l < "$T/$1.log")
    echo "$2" >&"$lines"
    [ "$2" != end ] || return 0
    more() { [ "$(wc -l < "$T/$1.log")" -gt "$before" ]; }
    wait_for 20 more "$1"
    said=$(tail -n 1 "$T/$1.log")
}
# Once more until the answer matches: what was credit goes back within a moment.
says() { say "$1" "$2" && [[ $said =~ $3 ]]; }
took() { echo "${said#took }"; }
size_of()
{
    "$rgpu" leases --json | json_value "['%d-%d %d' % (g['share'], g['most'], g['memory'] >> 20)
        for l in j['leases'] if l['id'] == '$1' for g in l['gpus']][0]"
}
board_says()
{
    api GET /v1/sharing
    json_true "'$1' in ['%d-%d' % (t['least'], t['most'])
        for g in j['gpus'] for t in g['tenants']]" <<< "$body"
}

rgpud gpu1 'softgpu_devices = 1' 'softgpu_memory = "256M"'
gpud=$pid
scheduler=$(pgrep -P "$gpud" rgpu-scheduler)
clients "gpu1=$control"

# --- memory

begin a -p 0.5 -m 64M
a=$lease
for number in 0 1 2 3 4 5 6 7 8 9; do
    try 20 "$rgpu" resize "$number" --share 10
    wrong+="$rc $err"
done
unlike "$wrong" "^0 |or lease" "a job's number means no lease, whatever its id begins with"
say a memory
like "$said" '^total 64 free [0-9]+ device 64$' "at the start the program has 64 MiB"
say a 'take 32'
is "$said" "took 32" "... and uses half of it"
try 10 "$rgpu" resize "${a:0:8}" --mem 128M
from=${EPOCHREALTIME/./}
try 10 "$rgpu" resize "${a:0:8}" --mem 160M
took_us=$((${EPOCHREALTIME/./} - from))
like "$rc $out" "^0 .*${a:0:8} +gpu1 +0 +50% +160.0 MiB +50%, 128.0 MiB" \
    "it gets more, and rgpu resize says what it has and had" || diag "$err"
ok "... within a second ($((took_us / 1000)) ms)" [ $took_us -lt 1000000 ]
ok "cuMemGetInfo and cuDeviceTotalMem follow" wait_for 10 says a memory '^total 160 .* device 160$'
smi() { RGPU_LEASE=$T/a.lease LD_LIBRARY_PATH=$interpose "$build/lib/smi/nvidia-smi" \
    --query-gpu=memory.total --format=csv,noheader; }
is "$(smi)" "160 MiB" "... and nvidia-smi"
mine=$(RGPU_LEASE=$T/a.lease "$rgpu" list --mine --json)
is "$(json_value 'j["gpus"][0]["memory"] >> 20' <<< "$mine")" 160 "... and rgpu list --mine"
is "$(size_of "$a")" "50-50 160" "... and rgpu leases"
say a 'take 300'
ok "the program gets what it may have now: $(took) MiB beside 32 of 160" \
    [ "$(took)" -ge 100 ] || diag "$said"
ok "... and no more" [ "$(took)" -le 128 ]
all=$(took)

try 10 "$rgpu" resize "$a" --mem 96M
used="1[2-6][0-9]\.[0-9] MiB of GPU 0's memory are in use .*\(1[2-6][0-9]{7} bytes\)"
like "$rc $err" "^122 rgpu: .*$used, and it would have 96\.0 MiB" \
    "less than is in use is refused with the number"
is "$(size_of "$a")" "50-50 160" "... and nothing has changed"
say a "free $all"
ok "what is given back goes back" wait_for 10 says a memory '^total 160 free 1[0-9][0-9] '
try 10 "$rgpu" resize "$a" --mem 96M
is "$rc" 0 "then it is granted" || diag "$err"
say a 'take 300'
ok "... and is the cap: $(took) MiB beside 32 of 96" [ "$(took)" -ge 40 ] && [ "$(took)" -le 64 ]
say a "free $(took)"

# --- room

begin b -p 30-100 -m 64M
b=$lease
try 10 "$rgpu" resize "$a" --mem 224M
could="has 50% and 96\.0 MiB, and could have 70% and 192\.0 MiB"
other="pid [0-9]+ on [^ ]+ of [^ ]+ has 30-100% and 64\.0 MiB"
like "$rc $err" "^122 rgpu: .*no room for 50% and 224\.0 MiB: the lease $could; $other" \
    "what others have is refused, with what could be had and who has it"
try 10 "$rgpu" resize "$a" --mem 300M
like "$rc $err" '^1 rgpu: .*256\.0 MiB of memory in all' "more than the GPU has is never had"
try 10 "$rgpu" resize "$a" --share 0.8
like "$rc $err" '^122 rgpu: .*could have 70%' "nor a share that others have"
try 10 "$rgpu" resize "$a" --share 20-70 --json
is "$rc $(json_value 'str([(g["share"], g["most"]) for g in j["leases"][0]["gpus"]])' <<< "$out")" \
    "0 [(20, 70)]" "a share as a range, and JSON" || diag "$err"
exec {lines}> "$T/a.fifo"
say a launch
ok "the scheduler has it without a new worker" wait_for 10 board_says 20-70
is "$(size_of "$a")" "20-70 96" "... and rgpu leases"
try 10 "$rgpu" resize "$b" --share 80
is "$rc" 0 "what one has given up the other may have" || diag "$err"

# --- who may, and wrong words

try 10 "$rgpu" resize "$a"
like "$rc $err" '^2 rgpu: resize to what\?' "no size is wrong usage"
try 10 "$rgpu" resize "$a" --share 0
is "$rc" 2 "... and so is no share"
try 10 "$rgpu" resize 4711 --mem 64M
like "$rc $err" '^1 .*no job 4711 that you may resize' "a job that is not there"
for body in '{}' '{"share": 101}' '{"share": 50, "most": 40}' '{"memory": -1}' '{"mem": 5}'; do
    api POST "/v1/leases/$a/resize" "$body"
    is "$code" 400 "a request of $body is refused"
done
api POST "/v1/leases/$a/resize/keep"
is "$code" 404 "nothing is kept that was not held"

# --- held, and undone by itself

api POST "/v1/leases/$a/resize" "{\"memory\": $((64 * mib)), \"hold\": true}"
like "$code $body" "^200 .*\"memory\":$((64 * mib))" "a size can be held"
api POST "/v1/leases/$a/resize" "{\"memory\": $((80 * mib))}"
is "$code" 503 "... and meanwhile there is no other"
say a memory
like "$said" '^total 64 ' "... the program has the smaller one"
ok "what nobody keeps is undone" wait_for 20 says a memory '^total 96 '
ok "... in the books" wait_for 5 eval '[ "$(size_of "$a")" = "20-70 96" ]'

# --- the next rgpud

kill -KILL "$gpud"
rm -f "$T/gpu1.ready"
start again "$build/sbin/rgpud" --verbose --config "$T/gpu1.conf" --ready-file "$T/gpu1.ready"
cleanup_do end_rgpud "$pid" "$T/gpu1.state"
wait_for 20 test -s "$T/gpu1.ready" || bail "rgpud does not start again: $(tail "$T/again.log")"
control=$(json 'j["control_port"]' "$(cat "$T/gpu1.ready")")
clients "gpu1=$control"
is "$(size_of "$a")" "20-70 96" "the next rgpud knows the size"
try 10 "$rgpu" resize "$a" --mem 64M
is "$rc" 0 "... and can change it, with the worker of before" || diag "$err"
say a memory
like "$said" '^total 64 ' "... which is told"
say a end
try 10 "$rgpu" release --file "$T/a.lease"
try 10 "$rgpu" release --file "$T/b.lease"

# --- a whole GPU becomes a part of one, and is one again

begin whole
whole=$lease
say whole 'take 120'
is "$said" "took 120" "a program has a whole GPU"
say whole memory
like "$said" '^total 256 ' "... with all of its memory"
try 10 "$rgpu" resize "$whole" --share 50 --mem 64M
like "$rc $err" '^122 rgpu: .*1[2-4][0-9]\.[0-9] MiB of GPU 0.s memory are in use' \
    "a part that is smaller than what is in use is refused"
try 10 "$rgpu" resize "$whole" --share 50 --mem 160M
is "$rc" 0 "a larger one is granted" || diag "$err"
say whole 'take 300'
ok "... and is a cap: $(took) MiB beside 120 of 160" \
    [ "$(took)" -ge 20 ] && [ "$(took)" -le 40 ]
say whole "free $(took)"
try 10 "$rgpu" request --wait 5s -p 0.5 -m 64M -o "$T/other.lease"
is "$rc" 0 "what it gave up others get" || diag "$err"
try 10 "$rgpu" resize "$whole" --share 100 --mem 256M
like "$rc $err" '^122 rgpu: .*could have 50%' "the whole GPU is not had while they have it"
"$rgpu" release --file "$T/other.lease" > /dev/null
try 10 "$rgpu" resize "$whole" --share 100 --mem 256M
is "$rc" 0 "... and is when they have gone" || diag "$err"
say whole memory
like "$said" '^total 256 ' "... with all of its memory"
say whole 'take 300'
ok "... which it gets: $(took) MiB beside 120" [ "$(took)" -ge 100 ]
say whole end
"$rgpu" release --file "$T/whole.lease" > /dev/null

# --- the worker that waits for the next program was started before

try 20 "$rgpu" request --wait 10s -p 0.5 -m 64M -o "$T/waits.lease"
waits=$(json_value 'j["servers"][0]["lease"]' < "$T/waits.lease")
ready() { grep -q "lease ${waits:0:8}: worker .* makes its context" "$T"/{gpu1,again}.log; }
ok "a worker waits" wait_for 20 ready
try 10 "$rgpu" resize "$waits" --mem 48M
is "$rc" 0 "the lease becomes smaller" || diag "$err"
RGPU_LEASE=$T/waits.lease LD_LIBRARY_PATH=$interpose try 60 "$build/cuda/memory_cap-static" linear
like "$rc $out" "^0 total $((48 * mib)) " "the program that comes is told so from the first" ||
    diag "$err"
"$rgpu" release --file "$T/waits.lease" > /dev/null

# --- a scheduler that has died takes its pages along

begin c -p 0.5 -m 64M
if [ -n "$scheduler" ]; then
    kill -KILL "$scheduler"
    refused()
    {
        try 10 "$rgpu" resize "$lease" --mem 32M
        [[ "$rc $err" =~ ^122.*End\ them\ first ]]
    }
    ok "what cannot be told to a program is refused, with the cure" wait_for 10 refused ||
        diag "$rc $err"
    is "$(size_of "$lease")" "50-50 64" "... and nothing has changed"
else
    skip "no scheduler is found" 2
fi
say c end
"$rgpu" release --file "$T/c.lease" > /dev/null

# --- two servers

first=$control
rgpud gpu2 'softgpu_devices = 1' 'softgpu_memory = "256M"'
second=$control
clients "gpu1=$first" "gpu2=$second"
# As a job's prolog does.
of_job()  # PORT JOB SHARE MIB
{
    local owner='"owner": {"uid": 0, "job": "'$2'", "node": "cn1"}'
    control=$1
    api POST /v1/offers "{\"gpus\": 1, \"share\": $3, \"memory\": $(($4 * mib)), $owner}"
    api POST "/v1/offers/$(json 'j["id"]')/accept"
    [ "$code" = 200 ]
}
job_17() { "$rgpu" leases --json | json_value "str([(l['server'], g['share'], g['memory'] >> 20) \
for l in j['leases'] if l['owner'].get('job') == '17' for g in l['gpus']])"; }
of_job "$first" 17 40 64 && of_job "$second" 17 40 64 || bail "no leases: $body"
try 10 "$rgpu" resize 17 --share 30 --mem 96M
is "$rc $(job_17)" "0 [('gpu1', 30, 96), ('gpu2', 30, 96)]" \
    "a job gets it on each of its servers" || diag "$err"
of_job "$second" 18 50 128 || bail "no lease: $body"
try 10 "$rgpu" resize 17 --share 60 --mem 192M
like "$rc $err" '^122 rgpu: gpu2: .*could have 50% and 128\.0 MiB; job 18 on cn1' \
    "where one has no room none gets it"
is "$(job_17)" "[('gpu1', 30, 96), ('gpu2', 30, 96)]" "... and all have what they had"
try 10 "$rgpu" resize 17 --share 50 --mem 128M
is "$rc $(job_17)" "0 [('gpu1', 50, 128), ('gpu2', 50, 128)]" "... with nothing held meanwhile" ||
    diag "$err"
try 10 "$rgpu" resize 17 --node cn2 --share 50
is "$rc" 1 "a node on which it has no GPUs"
stop "$pid"
try 20 "$rgpu" resize 17 --share 20
like "$rc $err" '^123 rgpu: .*nothing was changed' \
    "a server that is away may have some: nothing is done"
done_testing
