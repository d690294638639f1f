#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The bytes of large copies go over several TCP connections, where each is limited (lib/slow_link.py
# limits each), as RGPU_CONNECTIONS says; with a server on another host by themselves. In network
# namespaces of its own, where it may.
[ -n "${RGPU_T2041:-}" ] || ! unshare -n true 2> /dev/null ||
    exec env RGPU_T2041=namespace unshare -n bash "$0"
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
[ -z "${RGPU_T2041:-}" ] || ip link set lo up || bail "no loopback"
rgpu=$build/bin/rgpu
rate=25  # MB/s of each connection

rgpud gpu1 'softgpu_memory = "256M"'
clients "gpu1=$control"
cd "$T" || exit 1
"$rgpu" request -n 2 -o gpus > lease.log 2>&1 || bail "no lease: $(cat lease.log)"
lease=gpus
proxy()  # NAME PROGRAM ARGUMENTS...
{
    start "$1" python3 "$root/t/lib/$2" $lease "$1" "${@:3}"
    wait_for 20 test -s "$1" || bail "no proxy: $(cat "$1.log")"
}
proxy slow slow_link.py 0 "$rate"
# over LEASE COMMAND...: runs it there.
over()
{
    rm -f stats.json
    try 120 env RGPU_STATS="$T/stats.json" "$rgpu" run --lease "$1" -- "${@:2}"
}
stat() { json "$1" "$(cat stats.json)"; }
milliseconds()
{
    expression='round(sum(j["by_name"][n]["ms"] for n in ("cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", '
    expression+='"cuStreamSynchronize") if n in j["by_name"]))'
    stat "$expression"
}
copies=("python3" "$root/t/lib/pack_copies.py")
export RGPU_COMPRESSION=off

# --- where each connection is limited

over slow env RGPU_CONNECTIONS=1 "${copies[@]}" noise 16 4
is "$rc $out $err $(stat 'j["connections"]')" "0 ok  1" "one connection"
one=$(milliseconds)
for n in 4 8; do
    over slow env RGPU_CONNECTIONS=$n "${copies[@]}" noise 16 4
    is "$rc $out $err $(stat 'j["connections"]')" "0 ok  $((n + 1))" \
        "$n connections, beside the one of the calls"
    took=$(milliseconds)
    ok "... take less than half the time: $took of $one ms" [ "$took" -lt $((one / 2)) ]
done
over slow "${copies[@]}" noise 16 2
is "$rc $out $err $(stat 'j["connections"]')" "0 ok  1" "auto: one, as both ends are on one host"
sed -i 's/^\[client\]/&\nconnections = "2"/' rgpu.conf
over slow "${copies[@]}" noise 16 2
is "$rc $out $err $(stat 'j["connections"]')" "0 ok  3" "connections = \"2\" in rgpu.conf"
over slow env RGPU_CONNECTIONS=auto "${copies[@]}" noise 16 2
is "$rc $out $err $(stat 'j["connections"]')" "0 ok  1" "... and RGPU_CONNECTIONS goes before it"
over gpus env RGPU_TRANSPORT=shm "${copies[@]}" noise 16 2
is "$rc $out $err $(stat '[j["transport"], j["connections"]]')" "0 ok  ['shm', 1]" \
    "through shared memory there is nothing to join"
sed -i '/^connections/d' rgpu.conf
over gpus env RGPU_CONNECTIONS=3 "$build/cuda/vector_add-static"
ok "another number is refused" test "$rc" != 0
like "$err" 'RGPU_CONNECTIONS is "3": auto, 1, 2, 4, 8 or 16' "... by name"

# --- all the programs that copy

export RGPU_TRANSPORT=tcp RGPU_CONNECTIONS=4
ok "t/lib/eight.c" cc -shared -fPIC -O2 -o eight.so "$root/t/lib/eight.c" -ldl
for program in vector_add streams sync_copies two_device_sum shared_managed unasked mistakes \
    in_turn; do
    over gpus "$build/cuda/$program-static"
    is "$rc" 0 "four connections: $program" || diag "$out$err"
done
over gpus env LD_PRELOAD="$T/eight.so" "$build/cuda/vector_add-static"
is "$rc" 0 "four connections: eight threads" || diag "$out$err"
over slow env RGPU_COMPRESSION=zstd "${copies[@]}" text 32 4
is "$rc $out $err $(stat '[j["connections"], j["packed"]["by"]]')" "0 ok  [5, 'zstd']" \
    "packed, over four connections"

# --- where it cannot be

proxy old pack_proxy.py old
over old "${copies[@]}" text 8
is "$rc $out $(stat 'j["connections"]')" "0 ok 1" "a server of an older version has one" ||
    diag "$err$(cat old.log)"
like "$err" 'go over one connection: its version of rgpu knows no more' \
    "... which is said where a number is named"
over old env RGPU_CONNECTIONS=auto "${copies[@]}" text 8
is "$rc $out $err$(cat old.log)" "0 ok " \
    "... and not in auto; it hears nothing that it does not know"
for what in silent refusing; do
    proxy "$what" lane_proxy.py "$what"
    over "$what" "${copies[@]}" noise 64 8
    is "$rc $out $(stat 'j["connections"]')" "0 ok 1" \
        "$what where lanes come: all goes over the one that there is" ||
        diag "$err$(cat "$what.log")"
done
like "$err" 'go over one connection: ' "... which is said"
proxy late lane_proxy.py late
over late python3 "$root/t/lib/closes_all.py" 2.5
is "$out" ok "a program that closes all its descriptors meanwhile: its own stay its own" ||
    diag "$err"
proxy cut lane_proxy.py cut
over cut "${copies[@]}" noise 64 8
like "$rc $err" '^[1-9].*lost the GPU server gpu1' \
    "a lane that ends in the middle ends the connection, and the program is told"
is "$(logged gpu1 'worker .* was ended by signal')" 0 "no worker has crashed"

if [ -n "${RGPU_T2041:-}" ]; then
    unset RGPU_TRANSPORT RGPU_CONNECTIONS
    start far unshare -n sleep infinity
    far=$pid
    auth=$'method = "key"\nkey_file = "'"$T/key"'"'
    (umask 077 && head -c 32 /dev/urandom | base64 > key)
    is_elsewhere() { [ "$(readlink "/proc/$far/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }
    wait_for 10 is_elsewhere ||
        bail "no second namespace"
    ip link add near type veth peer name far netns "$far" && ip addr add 10.99.0.1/24 dev near &&
        ip link set near up &&
        nsenter -t "$far" -n sh -c \
        'ip addr add 10.99.0.2/24 dev far; ip link set far up; ip link set lo up' ||
        bail "no network between them"
    [ "$worker_user" != root ] || worker_user=nobody  # not root's, where others could come
    rgpud gpu2 'listen = "10.99.0.1"' 'softgpu_memory = "256M"' 'encrypt = false'
    clients "gpu2=$control"
    sed -i 's/"127.0.0.1:/"10.99.0.1:/' rgpu.conf
    there()
    {
        try 120 nsenter -t "$far" -n env RGPU_STATS="$T/stats.json" "$rgpu" run -n 1 -- "$@"
    }
    there "${copies[@]}" noise 4 3
    is "$rc $out $err $(stat '[j["transport"], j["connections"]]')" "0 ok  ['tcp', 1]" \
        "another host, a few copies: one connection"
    there "${copies[@]}" noise 32 4
    is "$rc $out $err $(stat 'j["connections"]')" "0 ok  5" "... many: five" ||
        diag "$(tail -n 3 gpu2.log)"
    there env RGPU_CONNECTIONS=1 "${copies[@]}" noise 32 4
    is "$rc $out $err $(stat 'j["connections"]')" "0 ok  1" "... unless one is asked for"
    lease=far.lease
    "$rgpu" request -n 1 -o $lease > lease.log 2>&1 || bail "no lease: $(cat lease.log)"
    proxy limited slow_link.py 0 40 10.99.0.1
    five_have_ended() { [ "$(wc -l < limited.bytes)" -ge 5 ]; }
    least_of_them()
    {
        sed '1s/^/[/; $!s/$/,/; $s/$/]/' limited.bytes |
            json_value 'min(min(c["there"], c["back"]) for c in j)'
    }
    limited()
    {
        rm -f limited.bytes
        try 120 nsenter -t "$far" -n env RGPU_CONNECTIONS="$1" RGPU_STATS="$T/stats.json" "$rgpu" \
            run --lease limited -- "${copies[@]}" noise 96
    }
    limited auto
    is "$rc $out $err $(stat 'j["connections"]')" "0 ok  5" \
        "another host, each connection limited: five" || diag "$(tail -n 3 gpu2.log)"
    # Whether the four stay in use depends on the proxy's speed on a busy machine (lane_meter_test
    # tests the choice). They are tried in any case.
    wait_for 10 five_have_ended
    ok "... each of which carries more than a MiB both ways: $(least_of_them) bytes at least" [ \
        "$(least_of_them)" -gt $((1 << 20)) ]
    # As servers are without a word in rgpu.conf.
    rgpud gpu4 'listen = "10.99.0.1"' 'softgpu_memory = "256M"'
    clients "gpu4=$control"
    sed -i 's/"127.0.0.1:/"10.99.0.1:/' rgpu.conf
    there "${copies[@]}" noise 4 3
    is "$rc $out $(stat '[j["transport"], j["connections"]]')" "0 ok ['tls', 1]" \
        "data between hosts is encrypted" || diag "$err"
    like "$(cat gpu4.log)" 'worker [0-9]*, which waited, is for' \
        "... and the worker was ready before"
    try 120 env RGPU_STATS="$T/stats.json" "$rgpu" run -n 1 -- "${copies[@]}" noise 4 3
    is "$rc $out" "0 ok" "a program on the server's own host" || diag "$err"
    unlike "$(stat 'j["transport"]')" tls "... has nothing encrypted"
else
    skip "no network namespaces here" 9
fi
rgpud gpu3 'encrypt = true'
clients "gpu3=$control"
"$rgpu" request -n 1 -o sealed > lease.log 2>&1 || bail "no lease: $(cat lease.log)"
over sealed env RGPU_CONNECTIONS=4 "${copies[@]}" text 8
is "$rc $out $(stat '[j["transport"], j["connections"]]')" "0 ok ['tls', 1]" \
    "an encrypted connection is one" || diag "$err"
like "$err" 'go over one connection: it is encrypted' "... and says so where a number is named"
done_testing
