#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One program on the GPUs of two servers: a lease file that names both.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
. "$(dirname "$0")/lib/span.sh"

two_servers
spanned "$T/lease" gpu1 gpu2

# --- what the program sees

uuids()
{
    json_value '"\n".join(g["uuid"][4:].replace("-", "") for s in j["servers"]
        for g in s["gpus"])' < "$T/lease"
}
on "$build/cuda/span-static" devices
good "four devices, and kernels on each"
seen() { sed -n 's/^device [0-9]*: \([0-9a-f]*\) .*/\1/p' <<< "$out"; }
is "$(seen)" "$(uuids)" "... which are the lease's GPUs, in its order"
on env CUDA_VISIBLE_DEVICES=3,0,2,1 "$build/cuda/span-static" devices
wanted=$(for line in 4 1 3 2; do uuids | sed -n "${line}p"; done)
is "$(seen)" "$wanted" "CUDA_VISIBLE_DEVICES puts them in another" || diag "$out$err"
is "$rc" 0 "... and each works there"

# Each driver counts from the same address.
first() { on env CUDA_VISIBLE_DEVICES="$1" "$build/cuda/span-static" first; }
first 0; alone=$out
first 2; is "$rc $out" "0 $alone" "the drivers of the two servers give equal addresses"
first 0,2; is "$rc $(sort -u <<< "$out" | wc -l)" "0 2" "... but not to one program" ||
    diag "$out$err"
is "$(cut -c 1-4 <<< "$out" | tr '\n' ' ')" "0x58 0x59 " "... as each server has a band of its own"

while read -r case what; do
    on "$build/cuda/span-static" "$case"
    good "$what ($case)"
    case $case in
    host) is "$(grep -c '^kernel on device' <<< "$out")" 4 "... and what kernels print" ;;
    refused)
        sentence="managed or mapped host memory that belongs to another server's GPU.*without "
        sentence+="--rgpu-span"
        like "$err" "$sentence" "... with the cure, for memory"
        like "$err" "a graph cannot span GPUs of two servers" "... and for graphs"
        sentence="a graph of server gpu1 .* cannot be launched in a stream of another server's "
        sentence+="GPU.*without --rgpu-span"
        like "$err" "$sentence" "... and their launches" ;;
    esac
done <<'EOF'
threads eight threads, two on each device
copies copies between every two devices, of rows, boxes and more than a piece
order kernels, copies and events through all four, in order without a wait between
null_stream copies between two devices in the NULL stream come behind what either has
events events that are recorded again while another server waits
foreign objects and memory of one server while a GPU of the other is current
space an address is one server's
race ... whatever threads ask for at one moment
variables variables of modules, one for each device
host host functions, mapped and managed memory
registered memory that kernels of both servers write in turn
refused what cannot span is refused
vmm memory that is mapped by hand, and pools
EOF
on env RGPU_TRANSPORT=tcp "$build/cuda/span-shared" order
good "the same order with the shared cudart, through TCP"

# --- programs that know of no second server, with device 0 on the second and device 1 on the first

for program in vector_add streams soft_kernels soft_memory soft_streams mistakes ends sync_copies \
    soft_graphs graph_host soft_vmm soft_driver idle \
    read_after_wait poll primary shared_mapped shared_managed shared_graph shared_values \
    shared_variable; do
    on env CUDA_VISIBLE_DEVICES=2,0 "$build/cuda/$program-static"
    good "$program on the second server's GPU"
done
ok "t/lib/eight.c" cc -shared -fPIC -O2 -o "$T/eight.so" "$root/t/lib/eight.c" -ldl
on env CUDA_VISIBLE_DEVICES=2,0 LD_PRELOAD="$T/eight.so" "$build/cuda/two_device_sum-static"
good "two_device_sum on a GPU of each, from eight threads"
on env CUDA_VISIBLE_DEVICES=0,2 python3 "$root/t/lib/process_cases.py" fork
good "fork: the child of a program on two servers"
on env CUDA_VISIBLE_DEVICES=0,2 python3 "$root/t/lib/process_cases.py" exec
good "exec: its child begins anew"

on python3 "$py/nvml_count.py"
is "$out" "0 0 4$(for i in 1 2 3 4; do printf '\n0 0 %d' $((512 << 20)); done)" \
    "NVML lists the GPUs of both, and each answers" || diag "$err"

# --- a server that is lost, while work of the other waits for it

mkfifo "$T/go"
start lost env RGPU_LEASE="$T/lease" LD_LIBRARY_PATH="$interpose:$cuda_libs" bash -c \
    '"$0" lost < "$1"; echo "exit $?"' \
    "$build/cuda/span-static" "$T/go"
exec {go}> "$T/go"
wait_for 60 grep -q waiting "$T/lost.log" || diag "$(cat "$T/lost.log")"
workers=$(workers_of "$pid_gpu2")
# shellcheck disable=SC2086 # several
kill -9 $workers
echo > "/dev/fd/$go"
wait_for 60 grep -q "^exit" "$T/lost.log"
like "$(cat "$T/lost.log")" "exit 0" "one server lost: its GPUs fail, the other's go on" ||
    diag "$(cat "$T/lost.log")"
like "$(cat "$T/lost.log")" "lost the GPU server gpu2 .*every CUDA call for its GPUs fails" \
    "... and the program's user is told which"
like "$(cat "$T/lost.log")" "a copy of 4096 bytes from gpu2 .* to gpu1 .* has failed" \
    "... and which copy has failed"
exec {go}>&-

done_testing
