#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Arguments that mean nothing, for every call: a remote driver refuses what a driver refuses, and as
# soon.
. "$(dirname "$0")/lib/tap.sh"
. "$root/t/lib/rgpud.sh"

rgpud gpu1 'softgpu_memory = "256M"'
clients gpu1="$control"
export RGPU_SOFTGPU_HOST=$T/gpus
mkdir "$RGPU_SOFTGPU_HOST"
asked=(python3 "$root/t/lib/refusals.py" ask "${cuda_libs%/*}/include/cuda.h")

try 300 env LD_LIBRARY_PATH="$softgpu" "${asked[@]}"
is "$rc" 0 "every call is asked, directly" || diag "$err"
echo "$out" > "$T/direct"
try 300 "$build/bin/rgpu" run --wait 30s -- "${asked[@]}"
is "$rc" 0 "... and remotely" || diag "$err"
echo "$out" > "$T/remote"
try 10 python3 "$root/t/lib/refusals.py" compare "$T/direct" "$T/remote"
is "$rc $out" "0 " "the remote driver refuses the same, and at once" || diag "$err"

done_testing
