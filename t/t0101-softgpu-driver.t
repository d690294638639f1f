#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The software GPU as a driver: programs that use every part of it, all symbols, several processes
# on one GPU host.
. "$(dirname "$0")/lib/tap.sh"

export LD_LIBRARY_PATH=$softgpu:$cuda_libs
export RGPU_SOFTGPU_CACHE=$T/cache RGPU_SOFTGPU_HOST=$T/gpus
driver=$build/cuda/soft_driver-static

for program in soft_memory soft_streams soft_kernels soft_graphs soft_vmm soft_driver graph_host; do
    for cudart in static shared; do
        try 120 "$build/cuda/$program-$cudart"
        is "$rc" 0 "$program, $cudart cudart" || diag "$out$err"
    done
done

# NCCL's kernels for what comes after 12.x want 119,040 bytes.
for capability in 8.0:166912 9.0:232448 12.0:101376 13.0:232448; do
    try 120 env RGPU_SOFTGPU_COMPUTE_CAPABILITY=${capability%:*} "$build/cuda/soft_kernels-static"
    like "$rc:$out" "^0:.*shared memory of a block: ${capability#*:}" \
        "a block may have ${capability#*:} bytes of shared memory on ${capability%:*}" ||
        diag "$out$err"
done

# Every symbol of NVIDIA's library, whatever it answers.
symbols()
{
    nm -D --defined-only "$1" | awk '$2 != "A" && $3 ~ /^cu/ {sub(/@.*/, "", $3); print $3}' |
        sort -u
}
is "$(comm -23 <(symbols "$cuda_libs/stubs/libcuda.so") <(symbols "$softgpu/libcuda.so.1"))" "" \
    "no symbol of libcuda.so is missing"
graphics()
{
    sed -nE 's/.*CUresult CUDAAPI (cu\w+)\(.*/\1/p' "${cuda_libs%/*}"/include/cuda{GL,EGL,VDPAU}.h |
        grep -v ^cuWGL | sort -u
}
ok "the headers of OpenGL, EGL and VDPAU name calls" [ "$(graphics | wc -l)" -gt 25 ]
is "$(comm -23 <(graphics) <(symbols "$softgpu/libcuda.so.1"))" "" \
    "... and no symbol of theirs is missing"
is "$(comm -23 <(graphics) <(symbols "$interpose/libcuda.so.1"))" "" \
    "... nor is one for a remote GPU"

# --- several processes on one GPU host

hold()  # name, bytes: keeps the memory until $T/NAME.in is closed
{
    mkfifo "$T/$1.in"
    start "$1" bash -c "exec '$driver' hold $2 < '$T/$1.in'"
    eval "$1=\$pid"
    exec {fd}> "$T/$1.in"
    eval "$1_in=\$fd"
    wait_for 20 grep -q free "$T/$1.log" || diag "$1 says nothing: $(cat "$T/$1.log")"
}

export RGPU_SOFTGPU_MEMORY=256M
hold first $((200 << 20))
like "$(cat "$T/first.log")" "^held 56 MiB free" "a process gets its memory"
hold second $((100 << 20))
like "$(cat "$T/second.log")" "^CUDA_ERROR_OUT_OF_MEMORY 56 MiB free" \
    "another does not get what the first holds"
kill -9 "$first"
hold third $((100 << 20))
like "$(cat "$T/third.log")" "^held 156 MiB free" "what a killed process held is free"
hold fourth $((100 << 20))
like "$(cat "$T/fourth.log")" "^held 56 MiB free" "and goes to the next"
address() { sed -n 's/.* at //p' "$T/$1.log"; }
isnt_same() { [ "$(address third)" != "$(address fourth)" ]; }
ok "two processes have no address in common" isnt_same
export RGPU_SOFTGPU_HOST=$T/other
hold fifth $((200 << 20))
like "$(cat "$T/fifth.log")" "^held 56 MiB free" "another GPU host has memory of its own"
export RGPU_SOFTGPU_HOST=$T/gpus
unset RGPU_SOFTGPU_MEMORY

# --- which devices are seen

export RGPU_SOFTGPU_DEVICES=3
names=$("$driver" names)
is "$(wc -l <<< "$names")" 3 "three devices"
is "$("$driver" names)" "$names" "have the same names at every start"
is "$(CUDA_VISIBLE_DEVICES=2,0 "$driver" names)" "$(sed -n '3p;1p' <<< "$names" | tac)" \
    "CUDA_VISIBLE_DEVICES chooses and orders"
is "$(CUDA_VISIBLE_DEVICES=$(sed -n 2p <<< "$names" | cut -c1-12) "$driver" names)" \
    "$(sed -n 2p <<< "$names")" "by name too"
CUDA_VISIBLE_DEVICES= try 20 "$driver" names
like "$out" "CUDA_ERROR_NO_DEVICE" "none seen is CUDA_ERROR_NO_DEVICE"
RGPU_SOFTGPU_DEVICES=many try 20 "$driver" names
like "$err" "rgpu softgpu: RGPU_SOFTGPU_DEVICES=many" "a wrong setting is named"

# --- settings of the device

RGPU_SOFTGPU_COMPUTE_CAPABILITY=7.5 try 60 "$build/cuda/vector_add-static"
like "$err" "no PTX for compute capability 7.5" \
    "PTX that is too new is refused with what is there" || diag "$out$err"
RGPU_SOFTGPU_COMPUTE_CAPABILITY=9.0 try 60 "$build/cuda/vector_add-static"
like "$out" "compute capability 9.0" "a device may claim another compute capability"
is "$rc" 0 "and runs the same program"
done_testing
