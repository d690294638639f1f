#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How a program's connection carries its bytes: through shared memory on one host, over TCP else,
# and what happens when one end goes.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

rgpu=$build/bin/rgpu program=$build/cuda/vector_add-static
rgpud gpu1
rgpud_pid=$pid
clients "gpu1=$control"
"$rgpu" request -n 1 -o "$T/lease" > "$T/lease.log" || bail "no lease"
through()  # LEASE_FILE COMMAND...
{
    local lease=$1
    shift
    rm -f "$T/stats.json"
    try 60 env RGPU_STATS="$T/stats.json" "$rgpu" run --lease "$lease" -- "$@"
}
transport() { json 'j["transport"]' "$(cat "$T/stats.json")"; }

through "$T/lease" "$program"
is "$rc $(transport)" "0 shm" "a server on the same host: shared memory" || diag "$err"
try 60 env RGPU_STATS=1 "$rgpu" run --lease "$T/lease" -- "$program"
like "$err" 'received \(shm\)' "... and RGPU_STATS=1 says so"
through "$T/lease" env RGPU_TRANSPORT=tcp "$program"
is "$rc $(transport)" "0 tcp" "RGPU_TRANSPORT=tcp" || diag "$err"
through "$T/lease" env RGPU_TRANSPORT=shm "$program"
is "$rc $(transport)" "0 shm" "RGPU_TRANSPORT=shm" || diag "$err"
through "$T/lease" env RGPU_TRANSPORT=pigeon "$program"
ok "another is refused" test "$rc" != 0
like "$err" 'RGPU_TRANSPORT is "pigeon": auto, tcp, shm or ucx' "... by name"

# rgpu.conf says it for those who do not.
sed -i 's/^\[client\]/&\ntransport = "tcp"/' "$T/rgpu.conf"
through "$T/lease" "$program"
is "$rc $(transport)" "0 tcp" "transport = \"tcp\" in rgpu.conf" || diag "$err"
through "$T/lease" env RGPU_TRANSPORT=shm "$program"
is "$rc $(transport)" "0 shm" "... and RGPU_TRANSPORT goes before it" || diag "$err"
sed -i '/^transport/d' "$T/rgpu.conf"

# Both ends are this host's, but something lies between them.
start proxy python3 "$root/t/lib/slow_link.py" "$T/lease" "$T/far" 0
wait_for 20 test -s "$T/far"
through "$T/far" "$program"
is "$rc $(transport)" "0 tcp" "a proxy between the two: TCP, without a word" || diag "$err"
is "$err" "" "... indeed"
through "$T/far" env RGPU_TRANSPORT=shm "$program"
ok "... RGPU_TRANSPORT=shm fails there" test "$rc" != 0
like "$err" 'RGPU_TRANSPORT is shm, and no memory can be shared' "... and says why"

waiting()  # NAME: starts it, its standard input is descriptor 5
{
    mkfifo "$T/$1.in"
    LD_LIBRARY_PATH=$interpose RGPU_LEASE=$T/lease start "$1" sh -c \
        "exec python3 $root/t/lib/waits.py < $T/$1.in"
    exec 5> "$T/$1.in"
    wait_for 30 grep -q ready "$T/$1.log"
}
# Workers that share memory with a program.
sharing() { local w; for w in $(workers_of "$rgpud_pid"); do ! grep -q '/memfd:rgpu (deleted)$' \
    "/proc/$w/maps" 2> /dev/null || echo "$w"; done; }
one() { [ "$(sharing | wc -l)" = 1 ]; }
none() { [ -z "$(sharing)" ]; }

waiting lives
program_pid=$pid
ok "one worker shares memory with its program" one
like "$(ls -l "/proc/$program_pid/fd")" 'socket:' "... and both keep a socket"
echo go >&5
ok "... which finds its data there" wait_for 20 grep -q 'then 0' "$T/lives.log"
ok "the program's end is the worker's" wait_for 20 none

waiting dies
kill -9 "$pid"
ok "... a killed one's, too" wait_for 20 none

# One that is killed while its worker waits for places in the memory that it has not read.
RGPU_LEASE=$T/lease LD_LIBRARY_PATH=$interpose start copies "$build/cuda/beside-static" 100000
copying() { [ "$(sharing | wc -l)" = 1 ] && [ "$(ticks "$(sharing)")" -gt 20 ]; }
ok "a program copies" wait_for 20 copying
kill -STOP "$pid"
rests() { local i; one || return 1; for i in 1 2 3 4; do ! cat "/proc/$(sharing)/task"/*/status |
    grep -q '^State:[[:space:]]*R' || return 1; done; }
ok "it stands still, and its worker" wait_for 20 rests
kill -9 "$pid"
ok "... killed, it takes the worker along" wait_for 20 none

waiting left
kill -9 "$(sharing)"
wait_for 20 none
echo go >&5
ok "a killed worker is the loss of the GPUs" wait_for 20 grep -qE 'then [1-9]' "$T/left.log"
like "$(cat "$T/left.log")" 'lost the GPU server gpu1' "... and the program is told"
exec 5>&-

rgpud tls 'encrypt = true'
clients "tls=$control"
"$rgpu" request -n 1 -o "$T/tls-lease" > "$T/lease.log" || bail "no lease"
through "$T/tls-lease" "$program"
is "$rc $(transport)" "0 tls" "encrypted connections stay what they are" || diag "$err"
done_testing
