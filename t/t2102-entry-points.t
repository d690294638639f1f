#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# cuGetProcAddress, before and after cuInit: each name at each version and flag is what the server's
# driver has, and a server of another rgpu version, whose table lacks calls and has another order,
# is understood by name.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

rgpud gpu1 'softgpu_memory = "256M"'
clients "gpu1=$control"
sed -i '/^interposer_dir/a library_path = ["'"$cuda_libs"'"]' "$RGPU_CONF"
include=${cuda_libs%/*}/include
symbols=$(nm -D --defined-only "$cuda_libs/stubs/libcuda.so" | awk '{print $3}' | grep ^cu)
# Those of OpenGL, EGL and VDPAU are not in the toolkit's stub.
symbols+=$'\n'$(sed -nE 's/^NONE\((\w+).*/\1/p; s/^NONE_(PT[DS][SZ])\((\w+).*/\2\n\2_\L\1/p' \
    "$root/src/calls/table/graphics.def")
version=$(sed -nE 's/^#define CUDA_VERSION ([0-9]+)/\1/p' "$include/cuda.h")

echo "$symbols" > "$T/symbols"
ask() { try 120 "$build/bin/rgpu" run --wait 20s -- "$@" < "$T/symbols"; }
ask python3 "$root/t/lib/entry_points.py" "$include" "$version"
is "$rc" 0 "the server's own table" || diag "$out$err"
note "$out"

# --- a server of another version: everything below goes through a proxy that makes one

cat > "$T/other.sh" <<'END'
python3 "$1/t/lib/table_proxy.py" "$RGPU_LEASE" "$2/other.json" $3 > "$2/proxy.log" 2>&1 &
proxy=$!
for i in $(seq 200); do [ -s "$2/other.json" ] && break; sleep 0.05; done
shift 3
RGPU_LEASE=$T/other.json "$@"
status=$?
kill $proxy
rm -f "$T/other.json"
exit $status
END
export T
other() { ask bash "$T/other.sh" "$root" "$T" "$@"; }

other '--without cuNothing' "$build/cuda/vector_add-static"
is "$rc" 0 "a table in another order" || diag "$out$err$(cat "$T/proxy.log")"
like "$(cat "$T/proxy.log")" "sent cuLaunchKernel" "calls go by the server's numbers"
for program in streams soft_streams; do
    other '--without cuNothing' "$build/cuda/$program-shared"
    is "$rc" 0 "... $program" || diag "$out$err$(cat "$T/proxy.log")"
done

missing=cuCtxCreate_v4,cuMemGetInfo_v2,cuDeviceGetTexture1DLinearMaxWidth
other "--without $missing" python3 "$root/t/lib/entry_points.py" "$include" "$version" \
    ${missing//,/ }
is "$rc" 0 "what the server lacks is not found, or an older variant is" || diag "$out$err"
other "--without $missing" python3 "$py/call_missing.py"
is "$out" "801 0" \
    "called all the same, a missing call is CUDA_ERROR_NOT_SUPPORTED, and the next one works" ||
    diag "$err"

# --- an older server, which knows calls that it does not carry out

other '--none cuMemGetInfo_v2,cuMemsetD8Async,cuMemcpyDtoHAsync_v2' python3 \
    "$py/call_not_carried_out.py"
is "$out" "0 801 801 801 801 0 0" \
    "what it does not carry out is found, is CUDA_ERROR_NOT_SUPPORTED, and the program goes on" ||
    diag "$err"
like "$err" \
    "cuMemGetInfo_v2 answers CUDA_ERROR_NOT_SUPPORTED: the GPU server runs another version" \
    "... which is told once"
unlike "$(cat "$T/proxy.log")" "refused" "... without asking the server"
other "--version 12040" python3 "$root/t/lib/entry_points.py" "$include" 12040
is "$rc" 0 "a driver of CUDA 12.4: nothing newer is found" || diag "$out$err"
other "--version 12040" python3 -c '
import ctypes as c
v = c.c_int(); assert c.CDLL("libcuda.so.1").cuDriverGetVersion(c.byref(v)) == 0; print(v.value)'
is "$out" 12040 "cuDriverGetVersion is the server's" || diag "$err"
done_testing
