#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The small programs of t/cuda/features (t0102 runs them on the software GPU itself) through `rgpu
# run`: a program on a remote GPU sees what it sees on one in its own host. (Not mapped_memory: its
# kernels and its threads wait for each other between calls, see doc/host-memory.md.)
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

for capability in 8.0 9.0; do
    rgpud "gpu$capability" 'softgpu_memory = "512M"' 'softgpu_devices = 2' \
        "softgpu_compute_capability = \"$capability\""
    clients "gpu$capability=$control"
    mv "$T/rgpu.conf" "$T/rgpu.conf.$capability"
done
export LD_LIBRARY_PATH=$cuda_libs
for source in "$root"/t/cuda/features/*.cu "$root"/t/cuda/features/*/main.cu; do
    name=${source%/main.cu}
    name=$(basename "$name" .cu)
    [ "$name" != mapped_memory ] || continue
    capability=8.0
    [ "$name" = "${name%_sm90}" ] || capability=9.0
    RGPU_CONF=$T/rgpu.conf.$capability try 120 "$build/bin/rgpu" run -n 2 --wait 60s -- \
        "$build/cuda/features/$name"
    is "$rc $(tail -n 1 <<< "$out")" "0 right" "$name" || diag "$out$err"
done
done_testing
