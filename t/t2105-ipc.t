#!/bin/bash
# CUDA IPC through the workers of one lease: a process opens the memory of another one, of a device
# that is not the current one.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

rgpud gpu1 'softgpu_devices = 2' 'softgpu_memory = "256M"'
clients "gpu1=$control"
try 60 "$build/bin/rgpu" run -n 2 --wait 20s -- "$build/cuda/features/ipc_devices"
is "$rc $out" "0 right" "one process writes to another one's memory" || diag "$err"
done_testing
