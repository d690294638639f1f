#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Where a program has host functions, a worker frees memory in another thread. That could happen
# after the memory's context had ended: then it freed what the program had got at the same address
# in the next one.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/rgpud.sh"

include=${RGPU_CUDA_INCLUDE:-/usr/local/cuda/include}
rgpud gpu1 'softgpu_devices = 1' 'softgpu_memory = "64M"'
clients "gpu1=$control"
ok "t/lib/freed_late.c" cc -O1 -g -Wall -I"$include" -o "$T/freed_late" "$root/t/lib/freed_late.c" \
    -L"$interpose" -lcuda
try 60 "$build/bin/rgpu" run -- "$T/freed_late" 300
is "$rc $out" "0 freed_late: ok" "memory of the next context is not freed" || diag "$err"
done_testing
