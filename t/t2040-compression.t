#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Copies over a slow link (lib/slow_link.py) travel packed, both ways and bit for bit, where their
# bytes shrink; over a fast one they do not. What is named is used; a peer that knows nothing of it
# gets bytes as they are; damaged ones end the connection.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu
rate=15  # MB/s: a processor that has much else to do packs faster, too

rgpud gpu1 'softgpu_memory = "256M"'
clients "gpu1=$control"
cd "$T" || exit 1
"$rgpu" request -n 2 -o gpus > lease.log 2>&1 || bail "no lease: $(cat lease.log)"
proxy()  # NAME PROGRAM ARGUMENTS...
{
    start "$1" python3 "$root/t/lib/$2" gpus "$1" "${@:3}"
    wait_for 20 test -s "$1" || bail "no proxy: $(cat "$1.log")"
}
proxy slow slow_link.py 0 "$rate"
# over LEASE COMMAND...: runs it there; stats is what it says of packed bytes, and $wire what a slow
# link has carried.
over()
{
    rm -f stats.json slow.bytes
    try 120 env RGPU_STATS="$T/stats.json" "$rgpu" run --lease "$1" -- "${@:2}"
    [ "$1" != slow ] || wait_for 20 counted
}
counted()  # the program's connection has ended at the proxy, too
{
    # A line of JSON for each connection.
    wire=$(sed '1s/^/[/; $!s/$/,/; $s/$/]/' slow.bytes | json_value \
        '__import__("json").dumps({way: sum(c[way] for c in j) for way in j[0]})') &&
        [ "$(carried 'j["there"]')" -ge "$(packed 'j["bytes_sent"]')" ]
}
packed() { json "$1" "$(cat stats.json)"; }
carried() { json "$1" "$wire"; }
copies=("python3" "$root/t/lib/pack_copies.py")
mega=$((1 << 20))

# --- by what is measured

over slow "${copies[@]}" text 12 8
is "$rc $out" "0 ok" "text over a slow link" || diag "$err"
is "$err" "" "... without a word"
ok "... half of it at most goes there: $(carried 'j["there"]') bytes of $((96 * mega))" [ \
    "$(carried 'j["there"]')" -lt $((48 * mega)) ]
ok "... and comes back: $(carried 'j["back"]')" [ "$(carried 'j["back"]')" -lt $((48 * mega)) ]
expression='all(p["sent_as"] * 2 < p["bytes_sent"] and p["received_as"] * 2 < p["bytes_received"] '
expression+='for p in [j["packed"]])'
is "$(packed "$expression")" True \
    "... as RGPU_STATS says" || diag "$(cat stats.json)"
over slow "${copies[@]}" noise 12
is "$rc $out" "0 ok" "noise over a slow link" || diag "$err"
is "$(packed 'j["packed"]["bytes_sent"] + j["packed"]["bytes_received"]')" 0 "... is not packed"
is "$(carried "all(12 * $mega < j[way] < 13 * $mega for way in ('there', 'back'))")" True \
    "... and costs its own bytes" || diag "$wire"
over slow env RGPU_COMPRESSION=off "${copies[@]}" text 10
is "$rc $(packed 'j["packed"]["bytes_sent"] + j["packed"]["bytes_received"]')" "0 0" \
    "off never packs" || diag "$out$err"
over gpus env RGPU_TRANSPORT=tcp "${copies[@]}" text 32 4
is "$rc $(packed '[j["transport"], j["packed"]["bytes_sent"] + j["packed"]["bytes_received"]]')" \
    "0 ['tcp', 0]" "loopback is fast: nothing is packed" ||
    diag "$out$err$(cat stats.json)"
proxy faster slow_link.py 0 100
over faster "$rgpu" bench
like "$out" 'Copies of bytes that shrink are faster: packed' \
    "rgpu bench says that packing pays there" || diag "$err"

# --- by what is named

export RGPU_TRANSPORT=tcp
for method in lz4 zstd; do
    over gpus env RGPU_COMPRESSION=$method "${copies[@]}" text 8 2
    # What is left behind the last whole chunk of a copy is small, and goes as it is.
    expression='[j["packed"]["by"], round(j["packed"]["bytes_sent"] / 1e6), '
    expression+='round(j["packed"]["bytes_received"] / 1e6)]'
    is "$rc $(packed "$expression")" "0 ['$method', 17, 17]" \
        "$method: every copy, whatever the link" || diag "$out$err$(cat stats.json)"
    expression='all(p["sent_as"] * 2 < p["bytes_sent"] and p["received_as"] * 2 < '
    expression+='p["bytes_received"] for p in [j["packed"]])'
    is "$(packed "$expression")" True "... which shrinks"
done
over gpus env RGPU_COMPRESSION=lz4 RGPU_STATS=1 "${copies[@]}" text 8
sentence="rgpu stats: packed: 838[0-9]{4} bytes sent as [0-9]{4,7}, $((8 * mega)) received as "
sentence+="[0-9]{4,7}"
like "$err" "$sentence" "RGPU_STATS=1 has a line of it"
over gpus env RGPU_COMPRESSION=gzip "$build/cuda/vector_add-static"
ok "another word is refused" test "$rc" != 0
like "$err" 'RGPU_COMPRESSION is "gzip": auto, off, lz4 or zstd' "... by name"
sed -i 's/^\[client\]/&\ncompression = "lz4"/' rgpu.conf
over gpus "${copies[@]}" text 8
is "$rc $(packed 'j["packed"]["by"]')" "0 lz4" "compression = \"lz4\" in rgpu.conf" ||
    diag "$out$err"
over gpus env RGPU_COMPRESSION=off "${copies[@]}" text 8
is "$rc $(packed 'j["packed"]["by"]')" "0 none" "... and RGPU_COMPRESSION goes before it" ||
    diag "$out$err"
sed -i '/^compression/d' rgpu.conf
export RGPU_COMPRESSION=lz4
ok "t/lib/eight.c" cc -shared -fPIC -O2 -o eight.so "$root/t/lib/eight.c" -ldl
for program in vector_add streams sync_copies two_device_sum shared_managed unasked mistakes; do
    over gpus "$build/cuda/$program-static"
    is "$rc" 0 "packed: $program" || diag "$out$err"
done
over gpus env LD_PRELOAD="$T/eight.so" "$build/cuda/vector_add-static"
is "$rc" 0 "packed: eight threads" || diag "$out$err"

# --- where it cannot be

mkdir none
echo no library | tee none/liblz4.so.1 > none/libzstd.so.1
over gpus sh -c "LD_LIBRARY_PATH=$T/none:\$LD_LIBRARY_PATH exec $build/cuda/vector_add-static"
is "$rc $(packed 'j["packed"]["by"]')" "0 none" "no library: all goes as it is" || diag "$out$err"
like "$err" 'go unpacked: there is no lz4 here \(Debian: liblz4-1, libzstd1\): .*liblz4.so.1' \
    "... which is said"
proxy old pack_proxy.py old
over old "${copies[@]}" text 8
is "$rc $out $(packed 'j["packed"]["by"]')" "0 ok none" \
    "a server of an older version gets bytes as they are" || diag "$err$(cat old.log)"
like "$err" 'go unpacked: its version of rgpu knows no compression' \
    "... which is said where a method is named"
over old env RGPU_COMPRESSION=auto "${copies[@]}" text 8
is "$rc $out $err$(cat old.log)" "0 ok " \
    "... and not in auto; it hears nothing that it does not know"
proxy up pack_proxy.py up
over up "${copies[@]}" text 8
ok "damaged on its way to the server: an error" test "$rc" != 0
is "$(logged gpu1 'connection closed: .*packed bytes: they do not become what was announced')" 1 \
    "... which rgpud's log has" || diag "$(tail -n 3 gpu1.log)"
proxy down pack_proxy.py down
over down "${copies[@]}" text 8
like "$rc $err" \
    '^[1-9].*lost the GPU server gpu1.*packed bytes: they do not become what was announced' \
    "damaged on its way back: the program is told"

rgpud gpu2 'encrypt = true'
clients "gpu2=$control"
"$rgpu" request -n 1 -o sealed > lease.log 2>&1 || bail "no lease: $(cat lease.log)"
over sealed "${copies[@]}" text 8
is "$rc $(packed '[j["transport"], j["packed"]["by"]]')" "0 ['tls', 'none']" \
    "an encrypted connection packs nothing" || diag "$out$err"
like "$err" 'go unpacked: the connection is encrypted' "... and says so where a method is named"
done_testing
