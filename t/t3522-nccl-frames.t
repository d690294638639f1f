#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A tenant who sends calls of NCCL of his own making. None makes NCCL touch the worker's memory, or
# what is not the session's, and the worker never dies of one. t/lib/hostile_nccl.py is the tenant.
. "$(dirname "$0")/lib/tap.sh"

mkdir "$T/host"
ok "an NCCL is made up" gcc -O1 -shared -fPIC -Wl,-soname,libnccl.so.2 -o "$T/libnccl.so.2" \
    "$root/t/lib/made_up_nccl.c" -ldl -lpthread
export RGPU_DRIVER=$softgpu/libcuda.so.1 RGPU_SOFTGPU_HOST=$T/host RGPU_SOFTGPU_MEMORY=64M
export RGPU_WORKER_NCCL=$T/libnccl.so.2
try 240 python3 "$root/t/lib/hostile_nccl.py" "$build/libexec/rgpu-worker"
is "$rc" 0 "every attack gets its answer, and no worker dies of one" || diag "$out$err"
refused=0 closed=0
while IFS= read -r line; do
    case $line in
        fair*|"a variable of"*)
            is "${line#*: }" "CARRIED OUT, status 0" "what a client may say: ${line%%:*}" ;;
        "config that lies"*)
            is "${line#*: }" "refused with 4, status 0" "NCCL refuses it: ${line%%:*}" ;;
        *": closed, status 3") closed=$((closed + 1)) ;;
        *": refused with 4, status 0") refused=$((refused + 1)) ;;
        *) fail "$line" ;;
    esac
done <<< "$out"
is "$refused" 30 "what a program could get wrong is ncclInvalidArgument"
[ "$closed" -gt 40 ] && pass "what no client sends ends the connection ($closed)" ||
    fail "what no client sends ends the connection ($closed)"
done_testing
