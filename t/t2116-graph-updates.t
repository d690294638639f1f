#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# New arguments for the kernels of an executable graph cost no round trip: JAX sets them before each
# launch.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

rgpud gpu1 'softgpu_memory = "256M"' 'softgpu_compute_capability = "8.0"'
clients "gpu1=$control"
export LD_LIBRARY_PATH=$cuda_libs
try 120 env RGPU_STATS="$T/stats.json" "$build/bin/rgpu" run -- "$build/cuda/features/graph_updates"
is "$rc $(tail -n 1 <<< "$out")" "0 right" "each launch computes with what was set last" ||
    diag "$out$err"
of() { json_value "j['by_name']['cuGraphExecKernelNodeSetParams_v2']['$1']" < "$T/stats.json"; }
ok "of $(of calls) updates" test "$(of calls)" -gt 480
ok "... $(of round_trips) were waited for: the first of each kernel, and what is refused" \
    test "$(of round_trips)" -le 24
done_testing
