#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A lease's worker is there before its program: started with the lease, or when the program before
# it began, and its context made while no other program runs; the program cannot tell.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu
program=$build/cuda/primary-static

# ready N: N workers wait now, or have waited.
ready() { [ "$(logged gpu1 'worker [0-9]+ for whoever comes')" = "$1" ]; }
taken() { logged gpu1 'worker [0-9]+, which waited, is for'; }
waiting() { sed -n 's/.*worker \([0-9]*\) for whoever comes.*/\1/p' "$T/gpu1.log" | tail -n 1; }
cold() { logged gpu1 'worker [0-9]+ for 127'; }
# Whether the one that waits has made its context, which takes device memory.
with_context() { logged gpu1 "worker $(waiting), which waits, makes its context"; }
programs()
{
    "$rgpu" list --json | json_value 'sum(l["workers"] for s in j["servers"] for l in s["leases"])'
}

loads()
{
    readelf -d "$build/libexec/rgpu-worker" | sed -n 's/.*NEEDED.*\[\(lib[^.]*\).*/\1/p' | sort |
        xargs
}
is "$(loads)" "libc libm" "a worker loads nothing that only some workers need"

rgpud gpu1
clients "gpu1=$control"
first=$control second=$data rgpud_pid=$pid
cd "$T" || exit 1

try 20 "$rgpu" request -m 32M -o gpus
is "$rc" 0 "a lease is made" || diag "$err"
ok "... and a worker with it" ready 1
is "$(with_context)" 1 "... which makes its context"
is "$(programs)" 0 "... which is no program's yet"
try 30 "$rgpu" run --lease gpus -- "$program"
is "$rc $out" "0 ok" "a program sees a GPU that nobody used" || diag "$err"
is "$(taken) $(cold)" "1 0" "... through the worker that waited"
ok "... and since then the next one waits" wait_for 20 ready 2
has_context() { [ "$(with_context)" = 1 ]; }
ok "when the program has ended, with its context" wait_for 20 has_context
# The first stays, on a pipe, until the second has ended.
mkfifo hold said
start holder "$rgpu" run --lease gpus -- sh -c "exec 3<> hold; $program hold <&3 > said"
read -r begun < said
is "$begun" ok "a program begins, and stays"
ok "... and the next worker waits" wait_for 20 ready 3
is "$(with_context)" 0 "... without a context: the memory is that program's"
try 30 "$rgpu" run --lease gpus -- "$program"
is "$rc $out" "0 ok" "another one beside it" || diag "$err"
is "$(taken) $(cold)" "3 0" "... gets a worker that waited, too"
ok "... and the next worker waits" wait_for 20 ready 4
ended() { [ "$(programs)" = 1 ]; }
ok "the second program ends" wait_for 20 ended
is "$(with_context)" 0 "... while the first runs, still without a context"
echo > hold
ok "after both, with its context" wait_for 20 has_context
for i in 1 2 3 4 5; do
    try 30 "$rgpu" run --lease gpus -- sh -c "$program && $program"
    [ "$rc" = 0 ] || fail "two programs, one after the other" || diag "$err"
done
is "$(taken) $(cold)" "13 0" \
    "ten programs, one as soon as the other has ended: a worker waited for each"
ok "... and one waits again" wait_for 20 ready 14

killed=$(waiting)
kill -9 "$killed"
gone() { [ "$(logged gpu1 "worker $killed was ended by signal 9")" = 1 ]; }
ok "a waiting worker is killed" wait_for 20 gone
ok "... and none is started in its place: it may fail again" ready 14
try 30 "$rgpu" run --lease gpus -- "$program"
is "$rc $out" "0 ok" "... the program gets a fresh one" || diag "$err"
ok "since then one waits again" wait_for 20 ready 15

last=$(waiting)
kill -9 "$rgpud_pid"; wait "$rgpud_pid" 2>/dev/null
# What is left of it is the spawner's until the next rgpud asks.
ok "without rgpud nobody waits" wait_for 20 tap_gone "$last"
rm "$T/gpu1.ready"
rgpud gpu1 "control_port = $first" "data_port = $second"
try 30 "$rgpu" run --lease gpus -- "$program"
is "$rc $out" "0 ok" "the next rgpud serves the lease" || diag "$err"
try 20 "$rgpu" release --file gpus
is "$rc" 0 "the lease is given back" || diag "$err"
all_free() { [ "$("$rgpu" list | tail -n 1)" = "2 of 2 GPUs free" ]; }
ok "... and what waits for its programs with it" wait_for 20 all_free

stop "$pid"
rgpud cold 'warm = false'
clients "cold=$control"
try 30 "$rgpu" run -- "$program"
is "$rc $out" "0 ok" "warm = false: a program runs" || diag "$err"
is "$(logged cold 'whoever comes')" 0 "... and nobody waited for it"

done_testing
