#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Hostile: ways round a lease's cap on memory that an ordinary CUDA program has.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu
program=$build/cuda/memory_cap_graphs-static
[ -x "$program" ] || skip_all "$program is not built; run make cuda"
mib=$((1 << 20))

rgpud gpu1 'softgpu_memory = "256M"' 'softgpu_devices = 1'
clients "gpu1=$control"

# Graphs took 2.4 times the cap and more: their allocation nodes were looked at one by one.
for how in captured nodes any one; do
    try 60 "$rgpu" run -p 0.5 -m 64M -- "$program" $how
    is "$rc" 0 "memory of graphs until there is no more: $how" || { diag "$out $err"; continue; }
    got=${out#got }
    ok "... the cap and no more: $((got / mib)) MiB of 64" test "$got" -le $((64 * mib)) -a "$got" \
        -ge $((56 * mib))
done
done_testing
