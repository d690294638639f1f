#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A thread of the interposer that was told of input, which another thread took, waited for more
# without end; meanwhile nobody sent what the program's calls had gathered, and a host function's
# end never got to the server.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/rgpud.sh"

rgpud gpu1 'softgpu_devices = 1' 'softgpu_memory = "64M"'
clients "gpu1=$control"
ok "t/lib/late_poll.c" cc -shared -fPIC -O2 -o "$T/late_poll.so" "$root/t/lib/late_poll.c" -ldl
try 60 "$build/bin/rgpu" run -- env RGPU_TRANSPORT=tcp LD_PRELOAD="$T/late_poll.so" \
    "$build/cuda/host_race-static"
like "$rc $out" '^0 host_race: ok' \
    "host functions' ends are sent, however late a thread sees its input" || diag "$err"
done_testing
