#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# NCCL at the server: our libnccl.so.2 in the program, and behind the worker an NCCL that a test has
# made (t/lib/made_up_nccl.c), which does its collectives on the processor. t/long/t0129 has
# NVIDIA's.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

library=$interpose/nccl/libnccl.so.2

# --- the table

exported=$(nm -D --defined-only "$library" | awk '$2 == "T" {print $3}' | sort -u)
is "$(grep -vE '^p?nccl' <<< "$exported")" "" "libnccl.so.2 exports NCCL's functions only"
is "$(sed -n 's/^p//p' <<< "$exported")" "$(grep -v '^p' <<< "$exported")" \
    "each is there with p in front, too"
header=$(ls "${cuda_libs%/*}/include/nccl.h" /usr/local/cuda*/include/nccl.h /usr/include/nccl.h \
    2> /dev/null | head -n 1)
if [ -n "$header" ]; then
    declared=$(grep -E '^(ncclResult_t|const char\*|void) ' "$header" |
        grep -oE '\bp?nccl[A-Z]\w+ *\(' | tr -d '( ' | sort -u)
    is "$(comm -23 <(echo "$declared") <(echo "$exported") | tr '\n' ' ')" "" \
        "every function of $(basename "${header%/include*}")'s nccl.h is there"
else
    skip "no nccl.h here"
fi
real=$(ls "${cuda_libs%/*}"/lib*/libnccl.so.2 /usr/local/cuda*/lib/libnccl.so.2 2> /dev/null |
    head -n 1)
if [ -n "$real" ]; then
    is "$(comm -23 <(nm -D --defined-only "$real" | awk '$3 ~ /^p?nccl[A-Z]/ {print $3}' |
        grep -v Internal | sort -u) <(echo "$exported"))" "" "and every one that $real exports"
else
    skip "no libnccl.so.2 of NVIDIA's here"
fi
is "$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')" libnccl.so.2 "its SONAME"

# --- without our driver

printf 'int cuInit(unsigned n) { return (int)n; }' > "$T/other.c"
mkdir "$T/other" "$T/nccl"
gcc -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$T/other/libcuda.so.1" "$T/other.c"
LD_LIBRARY_PATH=$T/other try 20 python3 -c "
import ctypes
nccl = ctypes.CDLL('$library')
nccl.ncclGetErrorString.restype = nccl.ncclGetLastError.restype = ctypes.c_char_p
print(nccl.ncclGetVersion(0), nccl.ncclGroupStart(), nccl.ncclGetErrorString(2).decode())
print(nccl.ncclGetLastError(0))"
like "$out" '^2 2 unhandled system error' "another libcuda.so.1: ncclSystemError" || diag "$err"
is "$(grep -c "the libcuda.so.1 of this program is not rgpu's" <<< "$err")" 1 "... and why, once"

# --- a lease

ok "an NCCL is made up" gcc -O1 -shared -fPIC -Wall -Werror -Wl,-soname,libnccl.so.2 -o \
    "$T/nccl/libnccl.so.2" "$root/t/lib/made_up_nccl.c" -ldl -lpthread
rgpud gpu1 'softgpu_devices = 2' 'softgpu_memory = "256M"' "nccl = \"$T/nccl/libnccl.so.2\"" \
    'nccl_interface = "lo"' 'warm = false'
rgpud_pid=$pid
clients "gpu1=$control"
# One GPU has it where it is asked for.
export RGPU_NCCL=1
run() { try 60 "$build/bin/rgpu" run --wait 20s "$@"; }
calls() { run -n "$1" -- python3 "$root/t/lib/nccl_calls.py" "${@:2}"; }

calls 2 version
is "$rc $out" "0 version 22809 invalid argument (run with NCCL_DEBUG=WARN for details)" \
    "the version is that of the server's" || diag "$err"

calls 2 collectives
is "$rc" 0 "collectives" || diag "$out$err"
is "$out" "rank 0 of 2 device 0
rank 1 of 2 device 1
all-reduce [10.0, 12.0]
all-reduce [10.0, 12.0]
maximum [10.0, 11.0]
maximum [10.0, 11.0]
reduce [10.0, 12.0]
broadcast [10.0, 11.0]
broadcast [10.0, 11.0]
bcast [0.0, 0.0]
bcast [0.0, 0.0]
all-gather [0.0, 1.0, 10.0, 11.0]
all-gather [0.0, 1.0, 10.0, 11.0]
reduce-scatter [10.0, 12.0]
reduce-scatter [14.0, 16.0]
all-to-all [0.0, 1.0, 10.0, 11.0]
all-to-all [2.0, 3.0, 12.0, 13.0]
gather [0.0, 1.0, 10.0, 11.0]
scatter [0.0, 1.0]
scatter [2.0, 3.0]
swap [10.0, 11.0]
swap [0.0, 1.0]
in place [0.0, 0.0]
in place [0.0, 0.0]
none [0.0, 0.0]
none [0.0, 0.0]
afterwards 4
afterwards 4" "... have the right values, in groups of two ranks"

NCCL_DEBUG=INFO NCCL_SOCKET_IFNAME=evil0 calls 2 operators
is "$rc" 0 "operators, registered buffers and windows" || diag "$out$err"
like "$out" 'operators True True' "operators have numbers of their own"
like "$out" 'made up: operator of 0\.5' "a scalar in host memory"
like "$out" 'made up: operator of 2' "... and one on the device"
like "$out" 'scaled \[10\.0, 20\.0\]' "... are what NCCL gets"
like "$out" "another's 4.*destroyed 4" "another communicator's operator, and one that ended" ||
    diag "$out"
like "$out" 'made up: deregister 0x1234' "a registered buffer's handle is NCCL's there"
like "$out" 'twice 4' "... and ends once"
like "$out" 'window None' "a window is NULL"
like "$out" 'made up: a group of 2' "NCCL_DEBUG reaches NCCL; what it says is seen"
unlike "$out" 'evil0' "the job does not choose interfaces"
like "$out" 'interface lo' "... the server does"
unlike "$out" 'config of' "no config: none there"

NCCL_DEBUG=INFO calls 2 configs
is "$rc" 0 "configs, splitting, shrinking, several ids, and no waiting" || diag "$out$err"
like "$out" 'config of 80 bytes, blocking 1, net Socket, name named' \
    "a config is copied by its size, its texts with it"
like "$out" 'config of 32 bytes, blocking -[0-9]+, net none, name none' "... a short one, too"
like "$out" 'made up: split by 1, key 0' "split"
like "$out" 'no colour None' "... without a colour there is none"
like "$out" 'shrunk 1' "shrunk"
like "$out" 'made up: 2 ids' "several ids"
like "$out" 'no config 4 None made up: no config' "NCCL's own error, and its text"
is "$(grep -c 'state [07]' <<< "$out") $(grep state <<< "$out" | tail -n 1)" "2 state 0" \
    "not blocking: in progress until all are there"

calls 2 order
is "$rc $out" "0 behind [5.0, 4.0] [4.0, 4.0] ['called']" \
    "a collective comes behind posted kernels and host functions, and before later ones" ||
    diag "$err"

calls 1 aborted
is "$rc" 0 "abort" || diag "$out$err"
like "$out" 'others \[3\.0\] True' "while one thread waits for a rank, others go on" || diag "$out"
like "$out" 'blocked 3 None' "... and another one ends its wait"
like "$out" 'twice 4' "... once"

calls 2 wrong
is "$rc" 0 "arguments that are none" || diag "$out$err"
is "$(grep -vE ' 4( |$)' <<< "$out")" "no end 5
in a group 0
not there 5
and goes on [2.0]" "... are told" || diag "$out"
like "$out" 'too long 4 rgpu: ncclAllReduce: a buffer that is not, or not all, memory' \
    "... with a reason"
like "$err" 'rgpu: ncclSignal is not carried out on remote GPUs' "what is not carried out says so"
like "$err" 'rgpu: ncclAllReduce: its buffer is memory that the program and kernels share' \
    "managed memory, too"

RGPU_TEST_THREADS=200 calls 1 threads
is "$rc $out" "0 threads 200" "200 threads at the same time" || diag "$err"
RGPU_TEST_THREADS=300 calls 1 too_many
is "$rc $out" "0 refused True {2}" "300 that wait for ever: those above 256 get an error" ||
    diag "$err"
like "$err" 'rgpu: more than 256 threads of this program wait for NCCL' "... that says why"

# --- who gets it

run -n 2 -- sh -c 'echo $LD_PRELOAD'
is "$out" "$library" "with two GPUs the program gets the library"
RGPU_NCCL='' run -n 1 -- sh -c 'echo [$LD_PRELOAD]'
is "$out" "[]" "with one it does not"
RGPU_NCCL=0 run -n 2 -- sh -c 'echo [$LD_PRELOAD]'
is "$out" "[]" "... nor where the job does not want it"
LD_PRELOAD=$T/other/libcuda.so.1 run -n 2 -- sh -c 'echo $LD_PRELOAD'
is "$out" "$library:$T/other/libcuda.so.1" "what was there stays"
run -p 0.5 -- sh -c 'echo [$LD_PRELOAD]'
is "$out" "[]" "a share of a GPU does not get it" || diag "$err"
RGPU_TEST_SHIM=$library run -p 0.5 -- python3 "$root/t/lib/nccl_calls.py" refused
is "$rc $out" "0 refused 5 5 5 None" "... and NCCL is refused" || diag "$err"
like "$err" 'rgpu: NCCL needs whole GPUs.*--rgpu-share.*-p' "... with the cure"

# --- a client that goes in the middle of it

start hangs "$build/bin/rgpu" run -- python3 "$root/t/lib/nccl_calls.py" hang
hanging=$pid
ok "a program waits for a rank" wait_for 20 grep -q hangs "$T/hangs.log"
is "$(workers_of "$rgpud_pid" | wc -l)" 1 "... and its worker"
kill -KILL "$(pgrep -P "$hanging" | head -n 1)" 2> /dev/null || kill -KILL "$hanging"
no_worker() { [ "$(workers_of "$rgpud_pid" | wc -l)" = 0 ]; }
ok "it is killed: the worker ends" wait_for 10 no_worker

# --- a server that offers none

rgpud gpu2
clients "gpu2=$control"
run -n 2 -- sh -c 'echo [$LD_PRELOAD]'
is "$out" "[]" "a server without NCCL: nothing changes for programs"
LD_LIBRARY_PATH=$T/nccl run -n 2 -- python3 -c "import ctypes; ctypes.CDLL('libnccl.so.2')
print({line.split()[-1] for line in open('/proc/self/maps') if 'nccl' in line})"
is "$out" "{'$T/nccl/libnccl.so.2'}" "... and finds its own NCCL, not rgpu's" || diag "$err"
RGPU_TEST_SHIM=$library run -n 2 -- python3 "$root/t/lib/nccl_calls.py" refused
is "$rc $out" "0 refused 2 2 2 None" "... and NCCL is refused" || diag "$err"
like "$err" 'rgpu: this GPU server does not offer NCCL' "... with the reason"
done_testing
