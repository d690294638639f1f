#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A server that lies to the program: it answers with addresses, lengths, counts and numbers of its
# own choice. The program never crashes, nothing is written outside what it gave, and a copy counts
# as done only with its bytes.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

# RGPU_OLD: another build's libcuda.so.1, to see what it did.
libcuda=${RGPU_OLD:-$interpose/libcuda.so.1}
include=${RGPU_CUDA_INCLUDE:-/usr/local/cuda/include}
rounds=$([ -n "${RGPU_LONG:-}" ] && echo 3000 || echo 60)
lost=911  # CUDA_ERROR_EXTERNAL_DEVICE, which stays
ok "t/hostile/guarded.c" cc -O1 -g -Wall -I"$include" -o "$T/guarded" "$root/t/hostile/guarded.c" \
    -ldl -lpthread

rgpud gpu1 'softgpu_memory = "64M"'
clients "gpu1=$control"
ok "a lease" "$build/bin/rgpu" request -n 1 --server gpu1 -o "$T/lease"
of_lease() { json "j['servers'][0]['$1']" "$(cat "$T/lease")"; }
try 20 python3 "$root/t/lib/fuzz.py" snapshot "$data" "$(of_lease lease)" "$(of_lease secret)"
snapshot=$out
echo honest > "$T/lie"
start lying python3 "$root/t/lib/lying_server.py" "$T/lease" "$T/lease.lying" "$snapshot" "$T/lie"
wait_for 20 test -s "$T/lease.lying" || bail "no proxy: $(cat "$T/lying.log")"
export RGPU_LEASE=$T/lease.lying RGPU_TRANSPORT=tcp RGPU_COMPRESSION=off RGPU_CONNECTIONS=1

# The words of the lie, then what the program is to print.
lie()
{
    echo "$1" > "$T/lie"
    try 60 "$T/guarded" "$libcuda" once
    is "$rc" 0 "${3:-$1}: the program goes on, and its memory is as it was" || diag "$out$err"
    [ -z "$2" ] || like "$out" "$2" "... and is told" || diag "$err"
}

lie honest $'cuMemcpyDtoH_v2 0\n.*cuMemAllocManaged 0\n.*ended' "the truth"
lie copy-without-bytes "cuMemcpyDtoH_v2 $lost"$'\n'".*cuCtxSetCurrent $lost|cuMemcpyDtoH_v2 $lost" \
    "a copy is answered without bytes"
like "$err" 'lost the GPU server .*without its bytes' "... on standard error, too"
lie copy-too-long "cuMemcpyDtoH_v2 $lost" "a copy with more bytes than were asked for"
lie copy-too-short "cuMemcpyDtoH_v2 $lost" "a copy that ends before its end"
lie bytes-for-a-call "cuCtxSynchronize $lost" "bytes of a copy for a call that is none"
for address in 0xffffffffffffffff 0x0 0x1000 0x6f0000000000 0x6f0000000008 0x7fffffe00000 \
    0x800000000000 0xffffffffffe00000; do
    lie "address $address" 'cuMemAllocManaged (2|999)' "memory that is shared lies at $address"
done
lie 'address same' 'cuMemAllocManaged (0|2)' "all memory that is shared lies at one address"
# Of another server's band, beyond the band's end, between pages, the program's own memory.
for begin in 0x598000000000 0x588000200000 0x588000000001 0x7f0000000000; do
    lie "part $begin" "cuMemAlloc_v2 $lost" "the client's part of the band begins at $begin"
done
lie 'parameters 0xfffffff0 0x20' 'cuModuleGetFunction 999' "a parameter that wraps"
lie 'parameters 0x40000000 4' 'cuModuleGetFunction 999' "a parameter a gigabyte away"
lie 'parameters 8 0xffffffff' 'cuModuleGetFunction 999' "a parameter of 4 GiB"
lie 'parameters 8 4 0xffffffffffff' 'cuModuleGetFunction 999' \
    "more parameters than any answer holds"
for count in 0xffffffffffffffff 0x10000000000 0x20000000; do
    lie "graph-nodes $count" 'cuGraphInstantiateWithFlags (2|999)' "a graph of $count nodes"
done
lie graph-in-itself 'cuGraphInstantiateWithFlags 999' "a graph that is in itself"
lie empty '' "success and nothing else, for everything"
makers='cuDeviceGetDefaultMemPool|cuModuleGetFunction|cuMemAlloc_v2|cuModuleGetGlobal_v2'
unlike "$out" "($makers|cuMemPoolGetAttribute) 0"$'\n' \
    "... which is none where something was asked for"
lie long '' "more than was asked for, for everything"
for range in '0xfffffffffffff000 0x2000' '0x1000 0x7fffffffe000' '0 0xffffffffffffffff' \
    '0x123 0x1000'; do
    lie "device-range $range" 'cuInit 800' "device memory at $range"
done

echo "random $RANDOM" > "$T/lie"
note "$(cat "$T/lie")"
try 300 "$T/guarded" "$libcuda" rounds 0 "$rounds"
is "$rc" 0 "answers with random changes, $rounds times: no crash, no byte in the wrong place" ||
    diag "$out$err"
like "$out" "rounds $rounds" "... all of them"
echo honest > "$T/lie"
try 60 "$T/guarded" "$libcuda" once
is "$rc" 0 "the server has taken no harm"
done_testing
