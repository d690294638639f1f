#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# GPUs of several servers in one request (--span): which servers give them, all or nothing, renewed
# and given back on each.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu
free() { "$rgpu" list | tail -n 1; }
is_free() { free | grep -qx "$1 of [0-9.]* GPUs free" || { "$rgpu" list; return 1; }; }
all_free() { free | awk '{ exit !($1 == $3) }' || { "$rgpu" list; return 1; }; }
# "gpu1:2 gpu3:1": the servers of a lease file, in its order, and how many GPUs each has there.
parts() { json_value '["%s:%d" % (s["name"], len(s["gpus"])) for s in j["servers"]]' < "$1"; }
# The same of what a command with these options gets.
spans()
{
    try 30 "$rgpu" run "$@" -- sh -c 'cp "$RGPU_LEASE" "$0"' "$T/lease"
    [ "$rc" = 0 ] && parts "$T/lease" || diag "$err"
    rm -f "$T/lease"
}

rgpud gpu1; first=$control
rgpud gpu2; second=$control
rgpud gpu3 'softgpu_devices = 1'; third=$control third_pid=$pid
clients "gpu1=$first" "gpu2=$second" "gpu3=$third"

# --- which servers

try 20 "$rgpu" run -n 3 -- true
like "$rc $err" '^121 .*gpu1, gpu2: it has 2 GPUs, 3 are wanted' \
    "three GPUs that no server has: without --span never"
like "$(spans -n 2 --span)" '^gpu[12]:2$' "--span: one server that has all goes before several"
is "$(spans -n 3 --span)" "gpu1:2 gpu3:1" \
    "else the fewest servers, and of these those on which the least is left"
is "$(spans -n 4 --span)" "gpu1:2 gpu2:2" "not more servers than are needed"
is "$(spans -n 5 --span)" "gpu1:2 gpu2:2 gpu3:1" "the whole pool, in the order of rgpu.conf"
is "$(spans -n 3 --span --server gpu2 --server gpu1 | tr ' ' '\n' | sort | xargs)" "gpu1:2 gpu2:1" \
    "of the servers that are asked for; what is too much of an offer stays"
is "$(free)" "5 of 5 GPUs free" "all are given back"
like "$(spans -n 5 -p 0.5 --span)" '^gpu1:2 gpu2:2 gpu3:1$' "shares of them"
try 20 "$rgpu" run -n 3 --span -v -- true
is "$rc $(grep -c '^rgpu: gpu[13] GPU [01] (rgpu software GPU), 100%, ' <<< "$err")" "0 3" \
    "-v names each GPU" || diag "$err"

try 60 "$rgpu" run -n 4 --span -- "$build/cuda/span-static" devices
is "$rc $(grep -c '^device ' <<< "$out")" "0 4" "a program has the GPUs of two servers" ||
    diag "$out$err"

# --- never, later, and when it is given back

try 20 "$rgpu" run -n 6 --span -- true
like "$rc $err" '^121 .*6 GPUs are wanted, all servers together have 5: ' \
    "more than all have together: never, at once"
try 20 "$rgpu" run -n 4 --span --min-cc 99.0 -- true
sentence='^121 .*all servers together have 0: gpu1, gpu2: 0 of its 2 GPUs are of the kind that is '
sentence+='asked for'
like "$rc $err" "$sentence" "none is of the kind: never, and why"
is "$(free)" "5 of 5 GPUs free" "... and nothing stays locked"

cd "$T" || exit 1
try 20 "$rgpu" request -n 3 --span -o held
is "$rc $out" "0 held: 2 GPUs of gpu1, 1 GPU of gpu3" \
    "rgpu request --span holds GPUs of two servers"
is "$(stat -c %a held) $(parts held)" "400 gpu1:2 gpu3:1" "... in one lease file"
is "$("$rgpu" leases --json |
    json_value '[len(all := j["leases"]), len({l["span"]["id"] for l in all}),
    {l["span"]["gpus"] for l in all}]')" "2 1 {3}" \
        "... by two leases, which say that they belong together"
try 20 "$rgpu" run -n 3 --span --wait 0 -- true
like "$rc $err" \
    '^122 .*3 GPUs are wanted, 2 in all can be had now: .*gpu2: 2 of 2 that would do are free' \
    "too few are free now: later, and which are"
is "$(free)" "2 of 5 GPUs free" "... and nothing stays locked"
start waiting sh -c \
    '"$0" run -n 3 --span --wait 60s -- sh -c "cp \$RGPU_LEASE new; mv new got" 2> waits' "$rgpu"
waiting=$pid
ok "whoever waits says for what" wait_for 20 grep -q '3 GPUs are wanted' waits
try 20 "$rgpu" release --file held
is "$rc $out" "0 2 released" "rgpu release gives back what both servers have"
wait_for 60 test -e got
# Two servers gave back what was held: whichever is asked in between has told its part already.
like "$(parts got)" '^(gpu1:2 gpu3:1|gpu1:1 gpu2:2)$' "... and whoever waited has three"
wait_for 20 tap_gone "$waiting"
ok "... until he ends" wait_for 20 all_free

# Each secret opens its own server's door: a program runs with the part of the file that one server
# has.
try 20 "$rgpu" request -n 3 --span -o held
for server in gpu1 gpu3; do
    json_value '__import__("json").dumps({**j, "servers": [s for s in j["servers"]
        if s["name"] == a[0]]})' "$server" < held > "part.$server"
    ok "a program runs on $server with its part of the lease" "$rgpu" run --lease "part.$server" \
        -- "$build/cuda/vector_add-static"
done
kill -9 "$third_pid"; wait "$third_pid" 2>/dev/null
try 30 "$rgpu" release --file held
like "$rc $err" '^123 .*the file stays: server gpu3 ' \
    "a server that is away: the release says so, and keeps the file"
is "$("$rgpu" list | grep -c 'gpu1 .*100%')" 2 "... the other's GPUs are free"
rm "$T/gpu3.ready"; rgpud gpu3 'softgpu_devices = 1' "control_port = $third"; third_pid=$pid
try 20 "$rgpu" release --file held
is "$rc $out $([ -e held ] && echo there)" "0 2 released " \
    "... when it is back, the rest is released, and the file goes"
ok "... and all are free" wait_for 20 all_free

# --- renewed, and killed

start holds "$rgpu" run -n 5 --span -- sh -c 'echo $$ > pid; exec sleep 300'
holds=$pid
wait_for 20 test -s pid
is "$(free)" "0 of 5 GPUs free" "a command holds the whole pool"
# Terms are 3 s: who is older was renewed.
old()
{
    "$rgpu" leases --json |
        json_true 'sum(int(a[0]) - l["granted_at"] > 4 for l in j["leases"]) == 3' "$EPOCHSECONDS"
}
ok "each server's lease is renewed" wait_for 30 old
is "$(free)" "0 of 5 GPUs free" "... and still held"
kill -9 "$holds"; wait "$holds" 2>/dev/null
ok "kill -9 of rgpu run: all servers have their GPUs back" wait_for 30 all_free
kill "$(cat pid)" 2>/dev/null
start holds "$rgpu" run -n 5 --span -- sh -c 'echo > there; exec sleep 300'
holds=$pid
wait_for 20 test -e there
kill "$holds"
ok "SIGTERM: the same" wait_for 20 all_free

# --- everybody wins, somebody spins

for name in a b; do
    rm -f "$name.go"
    program="parts=\$(grep -c uuid \$RGPU_LEASE); echo \$parts > $name.has; while [ ! -e $name.go "
    program+="]; do sleep 0.05; done"
    start "$name" "$rgpu" run -n 3 --span --wait 60s -- sh -c "$program"
    eval "pid_$name=$pid"
done
one() { [ "$(cat ./*.has 2>/dev/null)" = 3 ]; }
both() { [ "$(cat ./*.has 2>/dev/null | xargs)" = "3 3" ]; }
ok "two that want three of five: one has them" wait_for 30 one
is "$(free)" "2 of 5 GPUs free" "... and the other holds nothing while it waits"
if [ -e a.has ]; then touch a.go; else touch b.go; fi
ok "... when it ends the other has three" wait_for 60 both
touch a.go b.go
# shellcheck disable=SC2154
wait_for 20 tap_gone "$pid_a"; wait_for 20 tap_gone "$pid_b"
ok "... and all are free in the end" wait_for 20 all_free

# --- all or nothing: servers that are made up

for how in breaks old; do
    start "$how" python3 "$py/made_up_server.py" "$how.port" "$how"
    wait_for 20 test -s "$how.port"
done
clients "gpu1=$first" "broken=$(cat breaks.port)"
before=$(logged gpu1 'lease .*: granted')
try 30 "$rgpu" run -n 4 --span --wait 0 -- true
like "$rc $err" '^122 .*server broken .*it has thought better of it' \
    "one server takes its offer back: nothing is leased"
is "$(($(logged gpu1 'lease .*: granted') - before)) $("$rgpu" list | grep -c '^gpu1 .*100%')" \
    "1 2" "... and what the other gave is given back"
clients "gpu1=$first" "old=$(cat old.port)"
try 20 "$rgpu" run -n 3 --span -- true
sentence='^121 .*all servers together have 2: .*old: its rgpu is older and shares no request with '
sentence+='other servers'
like "$rc $err" "$sentence" "a server of an older rgpu gives nothing to a span, and that is told"
is "$(spans -n 2 --span)" "gpu1:2" "... others do"
clients "gpu1=$first" "gone=$(free_port)"
try 20 "$rgpu" run -n 3 --span --wait 0 -- true
like "$rc $err" '^122 ' "a server that does not answer may have the rest: later"
done_testing
