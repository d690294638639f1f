#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program that gets no thread, no address, no descriptor or no memory: libcuda.so.1 answers with
# an error, or does without, and never ends it.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
. "$(dirname "$0")/lib/need.sh"

# RGPU_OLD: another build's libcuda.so.1, to see what it did.
libcuda=${RGPU_OLD:-$interpose/libcuda.so.1}
program guarded.c "${RGPU_CUDA_INCLUDE:-/usr/local/cuda/include}" "$libcuda"

rgpud gpu1 'softgpu_memory = "64M"'
clients "gpu1=$control"
ok "a lease" "$build/bin/rgpu" request -n 1 --server gpu1 -o "$T/lease"
export RGPU_LEASE=$T/lease

# Every symbol is an entry of exports.cc (an ifunc), which unit test guard_test calls through; so is
# every one of NVML's that does anything.
nm -D --defined-only "$libcuda" | awk '$2 != "i" {print $3}' > "$T/unguarded"
is "$(cat "$T/unguarded")" "" "every symbol of libcuda.so.1 goes through the guard"
if [ -e "$interpose/libnvidia-ml.so.1" ]; then
    nm -D --defined-only "$interpose/libnvidia-ml.so.1" | awk '$2 != "i" {print $3}' |
        sort > "$T/unguarded"
    { sed -n 's/^\(NONE\|DENIED\|FORWARD\|PAIR\)(\(\w*\).*/\2/p' "$root/src/calls/nvml.def"; echo \
        nvmlInternalGetExportTable; } | sort > "$T/nothing"
    is "$(comm -23 "$T/unguarded" "$T/nothing")" "" \
        "every symbol of libnvidia-ml.so.1, but those that look at no argument or go to forward()"
else
    skip "no nvml.h here"
fi
for plugin in spank job_submit; do
    for symbol in $(nm -D --defined-only "$build/lib/slurm/${plugin}_rgpu.so" |
        awk '$2 == "T" {print $3}'); do
        ok "$symbol of ${plugin}_rgpu.so, too" bash -c \
            'grep -hA2 "^int $1(" "$2"/src/plugin/*/*.cc | grep -q "return guard("' - "$symbol" \
            "$root"
    done
done

if [ "$(id -u)" = 0 ]; then
    as_user nproc 1
    is "$rc" 0 "no thread to be had: the program goes on, and what was copied is right" ||
        diag "$out$err"
    like "$out" $'^cuInit 0\n' "... cuInit succeeds"
    like "$out" 'cuLaunchKernel 0' "... kernels run"
    like "$out" 'cuMemcpyDtoHAsync_v2 0' "... copies that nobody waits for come"
    like "$out" 'cuLaunchHostFunc 304' "... host functions are CUDA_ERROR_OPERATING_SYSTEM"
    like "$out" 'cuGraphAddHostNode 304' "... those of graphs, too"
    like "$err" 'rgpu: this process can start no thread .*ulimit -u' \
        "... and a line names the limit and the cure"
    is "$(grep -c 'no thread' <<< "$err")" 1 "... once"
    like "$out" $'again 0\n.*cuLaunchHostFunc 0.*\nfailed 0\nended' \
        "when the limit is raised, all of it works"
    as_user nproc 2
    is "$rc" 0 "one thread" || diag "$out$err"
    like "$out" $'^cuInit 0\n.*ended' "... cuInit succeeds, the program ends by itself"
    as_user nproc 3
    is "$rc" 0 "two threads, as where the issue's program aborted" || diag "$out$err"
    like "$out" $'^cuInit 0\n.*cuLaunchHostFunc 0.*again 0.*failed 0\nended' \
        "... are all that is needed"
else
    skip "RLIMIT_NPROC needs a user of its own" 13
fi

for mib in 0 1 2 4 8 16 32 64 128 256 512 1024 4096; do
    as_user as $mib
    is "$rc" 0 "$mib MiB of addresses" || diag "$out$err"
    like "$out" 'ended' "... and it ends by itself"
done
as_user as 0
like "$out" $'^cuInit 2\n.*again 0\ncuInit 2' \
    "without addresses cuInit is CUDA_ERROR_OUT_OF_MEMORY" || diag "$out$err"

for n in 0 3 4 5 6 8 12; do
    as_user nofile $n
    is "$rc" 0 "descriptors below $n" || diag "$out$err"
    like "$out" 'ended' "... and it ends by itself"
done

# A process for each request for memory: that one fails. Afterwards the program has its memory, and
# all must go as if nothing had been: an answer that is lost makes it wait for ever, which ends it
# by SIGALRM. No request is left out: those that leave something half done are few.
walk 1 3000 1
is "$rc" 0 "malloc fails once, at each request" || diag "$out$err"
like "$out" 'requests [0-9]+' "... to the last one of the program"
for many in ${RGPU_LONG:+2 4 8 16} 3; do
    walk 1 3000 "$step" "$many"
    is "$rc" 0 "malloc fails $many times in a row, from each $step. request on" || diag "$out$err"
done
walk 1 3000 "$step" for_ever
is "$rc" 0 "malloc fails for good, from each $step. request on" || diag "$out$err"

try 60 "$T/guarded" "$libcuda" cancel
is "$rc" 0 "a thread that waits for the GPU is cancelled: no abort" || diag "$out$err"
like "$out" 'ended' "... the program ends by itself"
done_testing
