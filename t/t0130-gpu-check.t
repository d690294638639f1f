#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# contrib/gpu-check does its work, shown on the software GPU: right is right, wrong is wrong, no GPU
# is said.
. "$(dirname "$0")/lib/tap.sh"

export RGPU_BUILD=$build RGPU_SOFTGPU_HOST=$T/host RGPU_SOFTGPU_CACHE=$T/cache
if [ -e /dev/nvidiactl ]; then
    skip "this machine has a GPU"
else
    try 20 "$root/contrib/gpu-check"
    is "$rc" 2 "without a GPU it says so and exits 2"
fi
export RGPU_CHECK_DRIVER=$softgpu/libcuda.so.1 RGPU_CHECK_NATIVE=$softgpu:$cuda_libs
try 120 "$root/contrib/gpu-check" -o "$T/out" vector_add-static streams-static torch_gpt
is "$rc" 0 "programs that give the same directly and remotely" || diag "$out$err"
like "$out" '\| vector_add-static \| passes \| passes \| [0-9]+ \| [0-9]+ \| right \|' \
    "a row of the table"
like "$out" '2 programs, 0 wrong' "and their number" || diag "$out"
ok "what it called is kept" "$root/contrib/coverage-table" --merge "$T/list" \
    "$T"/out/vector_add-static.*.json
ok "... by name" grep -q cuMemAlloc_v2 "$T/list"

mkdir -p "$T/wrong/cuda"
for d in bin sbin lib libexec; do ln -s "$build/$d" "$T/wrong/$d"; done
printf '#!/bin/sh\n[ -z "$RGPU_LEASE" ]\n' > "$T/wrong/cuda/remote_fails-static"
chmod 755 "$T/wrong/cuda/remote_fails-static"
RGPU_BUILD=$T/wrong try 60 "$root/contrib/gpu-check" remote_fails-static
is "$rc" 1 "a program that fails only remotely"
like "$out" 'remote_fails-static \| passes \| fails \|.*wrong: exit status 1' "is told"

# --- the bundle, unpacked somewhere else

try 100 "$root/contrib/gpu-bundle" "$build" "$T/bundle.tar.gz"
is "$rc" 0 "a bundle can be packed" || diag "$err"
mkdir "$T/bare" && tar -C "$T/bare" -xzf "$T/bundle.tar.gz"
try 100 env -u RGPU_BUILD PATH=/usr/bin:/bin "$T/bare/rgpu-gpu-bundle/gpu-check" vector_add-static \
    torch_gpt
is "$rc" 0 "and does the same" || diag "$out$err"
like "$out" '\| vector_add-static \| passes \| passes \| [0-9]+ \| [0-9]+ \| right \|' \
    "... with what it brought"
done_testing
