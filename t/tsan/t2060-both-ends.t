#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The interposer and the worker under ThreadSanitizer, with programs of one and of eight threads
# between them: over TCP, shared memory, encrypted, and on the GPUs of two servers; and rgpud. `make
# check-tsan` builds them into $RGPU_TSAN; all else is the usual build's.
#
# The sanitizer sees what our code and libstdc++'s headers do, and every lock, thread, descriptor
# and copy of libc's. The programs, cudart, the software GPU and its kernels are not instrumented:
# what they do between themselves it neither sees nor says.
. "$(dirname "$0")/../lib/tap.sh"
. "$root/t/lib/rgpud.sh"
. "$root/t/lib/span.sh"
tsan=${RGPU_TSAN:-$build-tsan}
[ -x "$tsan/libexec/rgpu-worker" ] || bail "$tsan has no rgpu-worker: make check-tsan builds it"
interpose=$tsan/lib/interpose

# A report does not change how a program ends: reports() tells of it.
options="suppressions=$root/t/lib/tsan.supp history_size=5 second_deadlock_stack=1 exitcode=0"
runtime=$(ldd "$tsan/libexec/rgpu-worker" | sed -n 's/.*libtsan.* => \([^ ]*\) .*/\1/p')
# rgpud gives its workers no environment of its caller's.
for program in sbin/rgpud libexec/rgpu-worker; do
    name=${program##*/}
    cat > "$T/$name" <<END
#!/bin/sh
TSAN_OPTIONS='$options log_path=$T/report.$name' exec $tsan/$program "\$@"
END
    chmod 755 "$T/$name"
done
rgpud_program=$T/rgpud
# The sanitizer's shadow is where the software GPU has its memory else.
export RGPU_SOFTGPU_ADDRESSES=low
worker="worker = \"$T/rgpu-worker\""
gpus=('softgpu_devices = 2' 'softgpu_memory = "512M"' "$worker")

ok "t/lib/eight.c" cc -shared -fPIC -O2 -o "$T/eight.so" "$root/t/lib/eight.c" -ldl

instrumented()
{
    local file
    for file in "$interpose/libcuda.so.1" "$tsan/libexec/rgpu-worker" "$tsan/sbin/rgpud"; do
        nm -D "$file" | grep -q 'U __tsan_write8' || { echo "$file"; return 1; }
    done
}
ok "both ends, and rgpud, are instrumented" instrumented

reports()
{
    local file
    for file in "$T"/report.*; do
        [ -e "$file" ] || return 0
        cat "$file"
        mkdir -p "$T/told" && mv "$file" "$T/told/"
    done
    return 1
}

idle()
{
    "$build/bin/rgpu" list --json |
        json_true 'not sum(l["workers"] for s in j["servers"] for l in s["leases"])'
}

# run NAME [VARIABLE=VALUE...] COMMAND...: with the lease $T/lease, in $threads threads; passes when
# it exits 0 and neither end has a race.
threads=1
run()
{
    local name=$1 preload=$runtime
    shift
    [ $threads = 1 ] || preload+=:$T/eight.so name+=", $threads threads"
    try 300 env RGPU_LEASE="$T/lease" LD_LIBRARY_PATH="$interpose:$cuda_libs" EIGHT=$threads \
        TSAN_OPTIONS="$options log_path=$T/report.program" LD_PRELOAD="$preload" "$@"
    is "$rc" 0 "$name" || diag "$out$err"
    wait_for 60 idle || diag "$(cat "$T"/*.log)"
    ok "... without a race" reports
}

rgpud near "${gpus[@]}"
clients "near=$control"
"$build/bin/rgpu" request -n 2 -o "$T/lease" > "$T/lease.log" ||
    bail "no lease: $(cat "$T/lease.log")"

for program in host_race graph_host soft_graphs soft_streams sync_copies ends shared_mapped \
    shared_graph shared_values; do
    run "$program" "$build/cuda/$program-static"
done
run "objects end while other threads make new ones" "$build/cuda/parts-static" 20
run "managed memory of eight threads" "$build/cuda/shared_managed-static" 8
for transport in shm tcp; do
    for program in beside in_turn; do
        run "$program through $transport" RGPU_TRANSPORT=$transport "$build/cuda/$program-static"
    done
done
run "in_turn over four connections, packed" RGPU_TRANSPORT=tcp RGPU_CONNECTIONS=4 \
    RGPU_COMPRESSION=zstd "$build/cuda/in_turn-static"
threads=8
for transport in shm tcp; do
    for program in vector_add warp_reduce streams two_device_sum unasked idle read_after_wait \
        poll; do
        run "$program through $transport" RGPU_TRANSPORT=$transport "$build/cuda/$program-static"
    done
done
for program in vector_add streams two_device_sum read_after_wait; do
    run "$program over four connections" RGPU_TRANSPORT=tcp RGPU_CONNECTIONS=4 \
        "$build/cuda/$program-static"
done
run "traced and counted" RGPU_TRACE=1 RGPU_STATS=1 "$build/cuda/streams-static"
run "every call waits" RGPU_SYNC=1 "$build/cuda/streams-static"
stop "$pid"

rgpud tls 'encrypt = true' "${gpus[@]}"
clients "tls=$control"
rm -f "$T/lease"
"$build/bin/rgpu" request -n 2 -o "$T/lease" > "$T/lease.log" ||
    bail "no lease: $(cat "$T/lease.log")"
for program in vector_add streams two_device_sum read_after_wait poll; do
    run "$program, encrypted" "$build/cuda/$program-static"
done
stop "$pid"

threads=1
RGPU_SOFTGPU_LOADING=waits rgpud waits "${gpus[@]}"
clients "waits=$control"
rm -f "$T/lease"
"$build/bin/rgpu" request -n 2 -o "$T/lease" > "$T/lease.log" ||
    bail "no lease: $(cat "$T/lease.log")"
run "host functions while the driver waits" "$build/cuda/load_beside-static"
stop "$pid"

for server in gpu1 gpu2; do
    rgpud "$server" "${gpus[@]}"
    declare "control_$server=$control" "pid_$server=$pid"
done
clients "gpu1=$control_gpu1" "gpu2=$control_gpu2"
rm -f "$T/lease"
spanned "$T/lease" gpu1 gpu2
for case in threads copies order null_stream events space race variables host registered; do
    run "on two servers: $case" "$build/cuda/span-static" $case
done
stop "$pid_gpu1"
stop "$pid_gpu2"
ok "rgpud ends without a race" reports
done_testing
