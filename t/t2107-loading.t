#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A driver that waits for all work when it loads a module, as NVIDIA's does, does not keep host
# functions from being run: the program's word that one is over gets through.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

chmod 755 "$T"
export RGPU_SOFTGPU_LOADING=waits
rgpud gpu1 'softgpu_devices = 1' 'softgpu_memory = "256M"'
clients "gpu1=$control"
for transport in shm tcp; do
    RGPU_TRANSPORT=$transport try 60 "$build/bin/rgpu" run --wait 20s -- \
        "$build/cuda/load_beside-static"
    is "$rc $out" "0 right" "modules are loaded beside host functions over $transport" ||
        diag "$err"
done
done_testing
