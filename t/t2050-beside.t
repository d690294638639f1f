#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A large copy to the host and what other threads ask meanwhile: their answers do not wait for it,
# and what is in an order with it stays in it.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

export RGPU_DRIVER=$softgpu/libcuda.so.1 RGPU_SOFTGPU_HOST=$T/host RGPU_SOFTGPU_MEMORY=512M \
    PYTHONDONTWRITEBYTECODE=1
mkdir "$RGPU_SOFTGPU_HOST"
case_of() { try 100 python3 "$root/t/lib/beside.py" "$@"; }

case_of --list
while IFS=$'\t' read -r name what; do
    case_of "$build/libexec/rgpu-worker" "$name"
    is "$rc $out" "0 ok" "$name: $what" || diag "$err"
done <<< "$out"

# --- programs, over each way: eight threads; what is in pinned memory when a stream gets to it
unset RGPU_DRIVER
both()  # HOW COMMAND...
{
    for program in beside in_turn; do
        try 100 "${@:2}" "$build/cuda/$program-static"
        like "$rc $out" '^0 (beside: )?ok$' "$program, $1" || diag "$err"
    done
}
both directly env LD_LIBRARY_PATH="$softgpu"
rgpud gpu1 'softgpu_memory = "512M"'
clients "gpu1=$control"
for way in tcp shm; do
    both "remotely, $way" env RGPU_TRANSPORT=$way "$build/bin/rgpu" run -n 1 --wait 30s --
done
try 100 env RGPU_SYNC=1 "$build/bin/rgpu" run -n 1 --wait 30s -- "$build/cuda/beside-static"
is "$rc $out" "0 beside: ok" "... every call waits" || diag "$err"
rgpud tls 'encrypt = true' 'softgpu_memory = "512M"'
clients "tls=$control"
both encrypted "$build/bin/rgpu" run -n 1 --wait 30s --
done_testing
