#!/bin/bash
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
other "--without $missing" python3 "$root/t/lib/entry_points.py" "$include" "$version" ${missing//,/ }
is "$rc" 0 "what the server lacks is not found, or an older variant is" || diag "$out$err"
cat > "$T/lacks.py" <<'PY'
import ctypes as c
cuda = c.CDLL('libcuda.so.1')
ctx, free, total, stream, priority = c.c_void_p(), c.c_size_t(), c.c_size_t(), c.c_void_p(), c.c_int()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(c.byref(ctx), 0) == 0 and cuda.cuCtxSetCurrent(ctx) == 0
print(cuda.cuMemGetInfo_v2(c.byref(free), c.byref(total)), cuda.cuCtxSynchronize())
PY
other "--without $missing" python3 "$T/lacks.py"
is "$out" "801 0" "called all the same, a missing call is CUDA_ERROR_NOT_SUPPORTED, and the next one works" || diag "$err"

# --- an older server, which knows calls that it does not carry out

cat > "$T/none.py" <<'PY'
import ctypes as c
cuda = c.CDLL('libcuda.so.1')
ctx, free, total, stream, p, status = c.c_void_p(), c.c_size_t(), c.c_size_t(), c.c_void_p(), c.c_void_p(), c.c_int(7)
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(c.byref(ctx), 0) == 0 and cuda.cuCtxSetCurrent(ctx) == 0
assert cuda.cuMemAlloc_v2(c.byref(p), c.c_size_t(4096)) == 0
found = c.c_void_p()
assert cuda.cuGetProcAddress_v2(b'cuMemGetInfo', c.byref(found), 12000, c.c_uint64(0), c.byref(status)) == 0
assert found.value == c.cast(cuda.cuMemGetInfo_v2, c.c_void_p).value
host, pinned = (c.c_ubyte * 4096)(), c.c_void_p()
assert cuda.cuMemHostAlloc(c.byref(pinned), c.c_size_t(4096), 0) == 0
print(status.value,
      cuda.cuMemGetInfo_v2(c.byref(free), c.byref(total)),                     # asked
      cuda.cuMemsetD8Async(p, c.c_ubyte(1), c.c_size_t(4096), None),           # posted
      cuda.cuMemcpyDtoHAsync_v2(pinned, p, c.c_size_t(4096), None),            # a copy that nobody waits for
      cuda.cuMemcpyDtoH_v2(host, p, c.c_size_t(4096)),                         # ... and one that is waited for
      cuda.cuMemcpyHtoD_v2(p, host, c.c_size_t(4096)), cuda.cuCtxSynchronize())
PY
other '--none cuMemGetInfo_v2,cuMemsetD8Async,cuMemcpyDtoHAsync_v2' python3 "$T/none.py"
is "$out" "0 801 801 801 801 0 0" "what it does not carry out is found, is CUDA_ERROR_NOT_SUPPORTED, and the program goes on" || diag "$err"
like "$err" "cuMemGetInfo_v2 answers CUDA_ERROR_NOT_SUPPORTED: the GPU server runs another version" "... which is told once"
unlike "$(cat "$T/proxy.log")" "refused" "... without asking the server"
other "--version 12040" python3 "$root/t/lib/entry_points.py" "$include" 12040
is "$rc" 0 "a driver of CUDA 12.4: nothing newer is found" || diag "$out$err"
other "--version 12040" python3 -c '
import ctypes as c
v = c.c_int(); assert c.CDLL("libcuda.so.1").cuDriverGetVersion(c.byref(v)) == 0; print(v.value)'
is "$out" 12040 "cuDriverGetVersion is the server's" || diag "$err"
done_testing
