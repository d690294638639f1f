#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program that asks NVML and gets no thread, no address, no descriptor or no memory:
# libnvidia-ml.so.1 answers with an error, never ends it, and says the truth afterwards.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
. "$(dirname "$0")/lib/need.sh"

# RGPU_OLD: another build's libnvidia-ml.so.1, to see what it did.
library=${RGPU_OLD:-$interpose/libnvidia-ml.so.1}
[ -e "$library" ] || skip_all "$library is not there: no nvml.h (contrib/install-deps-debian.sh)"
header=$(ls "${cuda_libs%/*}/include/nvml.h" /usr/local/include/nvml.h \
    /usr/include/nvml.h 2> /dev/null | head -n 1)
program guarded_nvml.c "${header%/*}" "$library"

rgpud gpu1 'softgpu_memory = "64M"'
clients "gpu1=$control"
ok "a lease" "$build/bin/rgpu" request -n 2 --server gpu1 -o "$T/lease"
export RGPU_LEASE=$T/lease

all_is_well=$'nvmlDeviceGetCount_v2 0\n.*nvmlDeviceGetMemoryInfo 0\n'
[ "$(id -u)" = 0 ] && limits="nproc:1 nproc:2" || limits=
for limit in $limits as:0 as:1 as:2 as:4 as:8 as:16 as:64 nofile:0 nofile:3 nofile:4 nofile:5 \
    nofile:8; do
    as_user "${limit%:*}" "${limit#*:}"
    is "$rc" 0 "${limit%:*} ${limit#*:}" || diag "$out$err"
    like "$out" $'again 0\n.*'"$all_is_well.*ended" \
        "... and without the limit it gets all answers" || diag "$out$err"
done
as_user nofile 3
like "$out" $'^nvmlInit_v2 9\n.*again 0\nnvmlInit_v2 0' \
    "without a descriptor nvmlInit is NVML_ERROR_DRIVER_NOT_LOADED" || diag "$out$err"
like "$err" "rgpu: NVML: lease file $T/lease: Too many open files" "... and a line says why"

walk 1 3000 1
is "$rc" 0 "malloc fails once, at each request" || diag "$out$err"
like "$out" 'requests [0-9]+' "... to the last one of the program"
for many in ${RGPU_LONG:+2 4 8} 3 100000; do
    walk 1 3000 "$step" "$many"
    is "$rc" 0 "malloc fails $many times in a row, from each $step. request on" || diag "$out$err"
done
done_testing
