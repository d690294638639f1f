#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Connections through UCX, over its TCP and its shared memory as there is no RDMA here: programs run
# as over TCP, either end's death is noticed, nobody looks all the time, a program's own UCX is
# undisturbed, and where there is no UCX it is said or TCP taken.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

rgpu=$build/bin/rgpu
if ! grep -q '^UCX *:= yes' "$root/config.mk"; then
    rgpud gpu1 'transport = "ucx"'
    clients "gpu1=$control"
    try 60 env RGPU_TRANSPORT=ucx "$rgpu" run -n 1 -- "$build/cuda/vector_add-static"
    like "$err" 'built without UCX' "a build without UCX says so"
    done_testing
    exit
fi
# A connection over the host's own interface; what it uses is said to both ends.
export RGPU_UCX_NET_DEVICES=lo RGPU_UCX_TLS=tcp
[ "$(id -u)" != 0 ] || worker_user=nobody
rgpud gpu1 'transport = "ucx"' 'softgpu_memory = "512M"' 'softgpu_devices = 2'
tcp=$control tcp_pid=$pid
worker_user=$(id -un)  # shared memory is one user's
RGPU_UCX_TLS=sysv rgpud gpu2 'transport = "ucx"' 'softgpu_memory = "512M"' 'softgpu_devices = 2'
shm=$control
over()  # tcp or shm
{
    case $1 in
    tcp) export RGPU_UCX_TLS=tcp ; clients "gpu1=$tcp" ;;
    shm) export RGPU_UCX_TLS=sysv ; clients "gpu2=$shm" ;;
    esac
    sed -i "/^interposer_dir/a library_path = [\"$cuda_libs\"]\ntransport = \"ucx\"" "$T/rgpu.conf"
}
remote()
{
    rm -f "$T/stats.json"
    try 120 env RGPU_STATS="$T/stats.json" "$rgpu" run -n "${gpus:-2}" --wait 30s -- "$@"
}
transport() { json 'j["transport"]' "$(cat "$T/stats.json")"; }

ok "t/lib/eight.c" cc -shared -fPIC -O2 -o "$T/eight.so" "$root/t/lib/eight.c" -ldl
ways="tcp shm"
# A job's workers have an IPC namespace and a /dev/shm of their own: UCX's shared memory does not
# lead there.
[ "$(id -u)" != 0 ] ||
    { ways=tcp; skip "over shm: workers have an IPC namespace of their own where rgpud is root"; }
for way in $ways; do
    over "$way"
    programs="vector_add sync_copies unasked"
    [ "$way" = shm ] || programs="$programs streams two_device_sum soft_memory soft_graphs mistakes"
    for program in $programs; do
        remote "$build/cuda/$program-static"
        is "$rc $(transport)" "0 ucx" "over $way: $program" || diag "$out$err"
    done
    remote env LD_PRELOAD="$T/eight.so" "$build/cuda/vector_add-static"
    is "$rc $(transport)" "0 ucx" "over $way: eight threads" || diag "$out$err"
    remote python3 "$py/copies_of_sizes.py"
    is "$rc" 0 "over $way: copies of every size, both ways" || diag "$out$err"
    for case in fork exit exit_in_thread closed; do
        try 60 "$rgpu" run --wait 30s -- python3 "$root/t/lib/process_cases.py" "$case"
        is "$rc" 0 "over $way: $case" || diag "$out$err"
    done
done

# --- the end of either side, and what both do meanwhile

over tcp
"$rgpu" request -n 1 -o "$T/lease" > "$T/lease.log" || bail "no lease"
waiting()  # NAME: starts it, its standard input is descriptor 5
{
    mkfifo "$T/$1.in"
    LD_LIBRARY_PATH=$interpose RGPU_LEASE=$T/lease RGPU_TRANSPORT=ucx start "$1" sh -c \
        "exec python3 $root/t/lib/waits.py < $T/$1.in"
    exec 5> "$T/$1.in"
    wait_for 60 grep -q ready "$T/$1.log"
}
# A worker whose program has made its offer; another waits for the next.
connected() { local w; for w in $(workers_of "$tcp_pid"); do [ \
    "$(sed -n 's/^Seccomp_filters:[[:space:]]*//p' "/proc/$w/status")" != 3 ] || echo "$w"; done; }
none() { [ -z "$(connected)" ]; }

waiting lives
program_pid=$pid worker=$(connected)
like "$worker" '^[0-9]+$' "the worker's filter has its last part, which denies sockets" ||
    diag "$(workers_of "$tcp_pid")"
unlike "$(tr '\0' '\n' < "/proc/$worker/environ")" '^UCX_' \
    "... and no settings of somebody else's UCX"
second=$(getconf CLK_TCK)
before=$(($(ticks "$program_pid") + $(ticks "$worker"))) began=$(date +%s%N) took=0
while [ "$took" -lt "$second" ]; do
    try 60 "$rgpu" run -n 1 --wait 30s -- "$build/cuda/vector_add-static"
    took=$((($(date +%s%N) - began) * second / 1000000000))
done
spent=$(($(ticks "$program_pid") + $(ticks "$worker") - before))
ok "while others work, a pair that waits does not ($spent of $took ticks)" [ $((spent * 5)) -le \
    "$took" ]
echo go >&5
ok "... and goes on then" wait_for 30 grep -q 'then 0' "$T/lives.log"
ok "the program's end is the worker's" wait_for 30 none
waiting dies
kill -9 "$pid"
ok "... a killed one's, too" wait_for 30 none
waiting left
kill -9 "$(connected)"
wait_for 30 none
echo go >&5
ok "a killed worker is the loss of the GPUs" wait_for 30 grep -qE 'then [1-9]' "$T/left.log"
like "$(cat "$T/left.log")" 'lost the GPU server gpu1' "... and the program is told"
exec 5>&-

# What UCX leaves open in a child that outlives its parent.
LD_LIBRARY_PATH=$interpose RGPU_LEASE=$T/lease RGPU_TRANSPORT=ucx try 60 python3 \
    "$root/t/lib/process_cases.py" daemon 60 "$T"
is "$rc" 0 "a program leaves a child behind" || diag "$out$err"
ok "... which does not keep the worker" wait_for 30 none
child=$(pgrep -f "process_cases.py daemon 60 $T")
like "$child" '^[0-9]+$' "... and is still there" && kill "$child"

# --- a program with a UCX of its own

ok "t/lib/own_ucx.c" cc -O2 -o "$T/own_ucx" "$root/t/lib/own_ucx.c" -lucp -lucs -ldl
export UCX_TLS=self,sysv UCX_WARN_UNUSED_ENV_VARS=n
gpus=1 remote "$T/own_ucx"
is "$rc $out" "0 its own UCX: self,sysv" "a program's own UCX works beside ours" || diag "$out$err"
is "$(transport)" ucx "... which has other settings"
unset UCX_TLS

# --- where it cannot be

quick() { try 60 env "$@" "$rgpu" run -n 1 --wait 30s -- "$build/cuda/vector_add-static"; }
quick RGPU_UCX_LIBRARY=/nonexistent/libucp.so.0
ok "no UCX on the node: the program gets no GPU" test "$rc" != 0
like "$err" \
    'RGPU_TRANSPORT is ucx, and there is no UCX here .*/nonexistent/libucp.so.0.*install libucx0' \
    "... and is told what to install"
quick RGPU_TRANSPORT=auto RGPU_UCX_LIBRARY=/nonexistent/libucp.so.0
is "$rc $err" "0 " "transport auto does without" || diag "$out$err"
quick RGPU_UCX_TLS=sysv
ok "no network in common" test "$rc" != 0
like "$err" 'on the server: UCX has no network to the other side.*RGPU_UCX_TLS' \
    "... what to look at"

RGPU_UCX_LIBRARY=/nonexistent/libucp.so.0 rgpud gpu3 'transport = "ucx"'
clients "gpu3=$control"
quick RGPU_TRANSPORT=ucx
like "$rc $err" '^[1-9].*on the server: there is no UCX here.*install libucx0' \
    "no UCX on the GPU host"
rgpud gpu4
clients "gpu4=$control"
if [ -e /dev/infiniband ]; then
    skip "this host has RDMA devices" 1
else
    quick RGPU_TRANSPORT=ucx
    like "$rc $err" '^[1-9].*the server takes no UCX: it needs transport = "ucx" below \[rgpud\]' \
        "a server that does not take it"
fi
rgpud gpu5 'transport = "ucx"' 'encrypt = true'
clients "gpu5=$control"
like "$(cat "$T/gpu5.log")" 'encrypted connections are TCP' \
    "encrypt and ucx: rgpud says which it is"
quick RGPU_TRANSPORT=ucx
like "$rc $err" '^[1-9].*the server encrypts its data connections.*which UCX cannot' \
    "... and so does the program that wants UCX"
quick RGPU_TRANSPORT=auto
is "$rc $err" "0 " "... auto is TLS" || diag "$out$err"
is "$(find /dev/shm -maxdepth 1 -name 'ucx_*' 2> /dev/null)" "" \
    "no files of UCX are left in /dev/shm"
done_testing
