#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# CUDA IPC through the workers of one lease: a process opens the memory of another one, for every
# pair of its device and the current one, and waits for its events.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

rgpud gpu1 'softgpu_devices = 3' 'softgpu_memory = "256M"'
clients "gpu1=$control"
try 60 "$build/bin/rgpu" run -n 3 --wait 20s -- "$build/cuda/features/ipc_devices"
is "$rc $out" "0 right" "processes write to each other's memory" || diag "$err"
done_testing
