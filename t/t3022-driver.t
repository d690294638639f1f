#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The driver of a server: NVIDIA's, or rgpud does not start; software GPUs only where they are asked
# for, or on a host that has nothing of NVIDIA's.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
compgen -G '/dev/nvidia[0-9]*' > /dev/null && skip_all "this host has a GPU"

check() # LINES...: rgpud --check with these below [rgpud]
{
    printf '[auth]\n%s\n[rgpud]\nname = "gpu1"\nlisten = "127.0.0.1"\ncontrol_port = 0\n' \
        "$auth" > "$T/check.conf"
    printf 'data_port = 0\nsoftgpu_library = "%s"\nworker = "%s"\nstate_dir = "%s"\n' \
        "$softgpu/libcuda.so.1" "$build/libexec/rgpu-worker" "$T/state" >> "$T/check.conf"
    printf '%s\n' "worker_user = \"$worker_user\"" "$@" >> "$T/check.conf"
    try 60 "$build/sbin/rgpud" --check --config "$T/check.conf"
}

check
is "$rc" 1 "without a driver of NVIDIA's, and without more words, rgpud does not start"
like "$err" "NVIDIA's driver gives no GPU: .*; mend the driver .*, or ask for software GPUs with \
driver = \"softgpu\" below \[rgpud\]" "... and says what to do"
check 'driver = "nvidia"'
is "$rc" 1 "nor does it with driver = nvidia"
check 'driver = "softgpu"'
is "$rc" 0 "software GPUs are there where they are asked for" || diag "$err"
check 'driver = "softgp"'
like "$rc $err" '^1 .*driver = "softgp" below \[rgpud\]: nvidia, softgpu, auto or the path of a' \
    "a driver of another name is refused, with the names that there are"
if grep -qs 0x10de /sys/bus/pci/devices/*/vendor || [ -e /proc/driver/nvidia ]; then
    skip "this host has something of NVIDIA's" 1
else
    check 'driver = "auto"'
    is "$rc" 0 "auto: software GPUs on a host that has nothing of NVIDIA's" || diag "$err"
fi
done_testing
