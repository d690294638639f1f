#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The suites that play a hostile peer once more, with rgpud, its workers, scheduler and spawner,
# `rgpu`, and the libraries in the program under AddressSanitizer and UndefinedBehaviorSanitizer.
# `make check-asan` builds them into $RGPU_ASAN; all else is the usual build's.
#
# RGPU_SUITES="t3501 t3513": only these.
. "$(dirname "$0")/../lib/tap.sh"
# t3519 wants nothing of rgpu's below /tmp.
rm -rf "$T"
T=$(mktemp -d "/var/lib/rgpu-$test_name.XXXXXX") || exit 1
asan=${RGPU_ASAN:-$build-asan}
programs=(sbin/rgpud libexec/rgpu-worker libexec/rgpu-scheduler libexec/rgpu-spawner bin/rgpu)
for program in "${programs[@]}"; do
    [ -x "$asan/$program" ] || bail "$asan has no $program: make check-asan builds it"
done
instrumented()
{
    local file
    for file in "${programs[@]}" lib/interpose/libcuda.so.1; do
        nm -D "$asan/$file" | grep -q '__asan_' || { echo "$file"; return 1; }
    done
}
ok "all of them are instrumented" instrumented

# A build as the suites see it. Nobody gives workers an environment: each program gets its own here.
# What a worker says of itself comes into rgpud's log.
chmod 755 "$T"
tree=$T/build
mkdir -p "$tree/lib" "$T/logs"
# Freed memory that it keeps is in the way of bounds on memory.
options="quarantine_size_mb=16:detect_leaks=0"
options+=":allocator_may_return_null=1:abort_on_error=0:exitcode=99"
ln -s "$build"/* "$tree/" 2> /dev/null
ln -s "$build/lib"/* "$tree/lib/"
for program in "${programs[@]}"; do
    folder=$tree/${program%/*}
    if [ -L "$folder" ]; then
        rm "$folder"
        mkdir "$folder"
        ln -s "$build/${program%/*}"/* "$folder/"
    fi
    rm -f "$tree/$program"
    cat > "$tree/$program" <<END
#!/bin/sh
unset LD_PRELOAD
ASAN_OPTIONS='$options' UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 LLVM_PROFILE_FILE=/dev/null
export ASAN_OPTIONS UBSAN_OPTIONS LLVM_PROFILE_FILE
exec $asan/$program "\$@"
END
    chmod 755 "$tree/$program"
done

reports()
{
    local told
    told=$(grep -rlE 'ERROR: (Address|Leak)Sanitizer|runtime error:' "$T/logs")
    [ -n "$told" ] || return 0
    grep -rhE -A 30 'ERROR: (Address|Leak)Sanitizer|runtime error:' "$T/logs"
    return 1
}
suite()  # NAME [VARIABLE=VALUE...]
{
    local name=$1
    shift
    [[ -z ${RGPU_SUITES:-} || " $RGPU_SUITES " == *" ${name%%-*} "* ]] || return 0
    rm -rf "$T/logs" && mkdir "$T/logs"
    try 900 env RGPU_BUILD="$tree" RGPU_KEEP_LOGS="$T/logs" "$@" \
        bash "$root/t/$name.t"
    is "$rc" 0 "$name" || diag "$(grep -A 12 '^not ok' <<< "$out")$err"
    printf '%s\n' "$out$err" > "$T/logs/said"
    ok "... and no sanitizer has a word" reports
}

for name in t1000-garbage t3005-fuzz t3012-flood t3501-frames t3502-board t3503-requests \
    t3504-memory-cap t3505-tenants t3506-locks t3507-limits t3508-silent t3512-handshake \
    t3514-spawner t3515-life t3516-no-cgroups t3518-leftovers t3519-host-files t3520-tls \
    t3521-audit t3522-nccl-frames; do
    suite "$name"
done

# The library in a program is what is lied to. Its sanitizer has to be there before it.
runtime=$(ldd "$asan/lib/interpose/libcuda.so.1" | sed -n 's/.*libasan.* => \([^ ]*\) .*/\1/p')
[ -n "$runtime" ] || runtime=$(clang++-19 -print-file-name=libclang_rt.asan-x86_64.so)
ok "the sanitizer's library for programs" test -e "$runtime"
rm "$tree/lib/interpose" && mkdir "$tree/lib/interpose" &&
    ln -s "$build/lib/interpose"/* "$tree/lib/interpose/" &&
    ln -sf "$asan/lib/interpose/libcuda.so.1" "$tree/lib/interpose/"
suite t3513-lying-server LD_PRELOAD="$runtime" ASAN_OPTIONS="$options" \
    LLVM_PROFILE_FILE=/dev/null UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
done_testing
