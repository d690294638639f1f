#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What distributions expect of programs that strangers talk to: how every product is compiled and
# linked, and what systemd lets the units do.
. "$(dirname "$0")/lib/tap.sh"

programs=$(cd "$build" && ls bin/* sbin/* libexec/* lib/smi/nvidia-smi 2> /dev/null)
libraries=$(cd "$build" && ls lib/*/*.so.1 lib/softgpu/librgpu-ptx.so lib/slurm/*.so 2> /dev/null)

# What is wrong with a product, a word each; nothing is well.
faults()  # FILE
{
    local file=$build/$1 dynamic imports
    dynamic=$(readelf -dW "$file") imports=$(readelf --dyn-syms -W "$file" | grep -w UND)
    case $1 in
    lib/*.so*) readelf -hW "$file" | grep -q 'Type: *DYN' || echo "not-shared" ;;
    *) grep -q 'FLAGS_1.*PIE' <<< "$dynamic" || echo "no-PIE" ;;
    esac
    readelf -lW "$file" | grep -q GNU_RELRO || echo "no-RELRO"
    grep -qE 'BIND_NOW|FLAGS_1.*NOW' <<< "$dynamic" || echo "lazy-binding"
    readelf -lW "$file" | grep GNU_STACK | grep -q 'RW ' || echo "executable-stack"
    grep -q TEXTREL <<< "$dynamic" && echo "text-relocations"
    # Beside bin/ of the client's bundle are libraries that it brings.
    grep -E 'RPATH|RUNPATH' <<< "$dynamic" | grep -qvF '[$ORIGIN/../lib/rgpu/deps]' &&
        echo "search-path"
    grep -q __stack_chk_fail <<< "$imports" || echo "no-stack-protector"
    grep -qE ' __[a-z_]+_chk(@| |$)' <<< "$(grep -v __stack_chk_fail <<< "$imports")" ||
        echo "no-FORTIFY"
    readelf -lW "$file" | grep -q 'LOAD .* RWE' && echo "writable-code"
}

for product in $programs $libraries; do
    wrong=$(faults "$product" | tr '\n' ' ')
    # It hands LLVM its arguments, and copies nothing that FORTIFY could watch.
    [ "$product" = lib/softgpu/librgpu-ptx.so ] && wrong=${wrong/no-FORTIFY /}
    is "$wrong" "" "$product is hardened"
done

# The linker leaves the mark of control-flow protection out where one object lacks it, and the C
# library's own lack it on many hosts. So each of ours is looked at.
mapfile -t objects < <(find "$build/obj/src" -name '*.o')
program='/^File:/ {if (file && !marked) print file; file = $2; marked = 0} /x86 '
program+='feature:.*IBT.*SHSTK/ {marked = 1} END {if (file && !marked) print file}'
unmarked=$(readelf -nW "${objects[@]}" 2> /dev/null |
    awk "$program" |
    sed "s|^$build/obj/||" | head -n 8 | tr '\n' ' ')
if [ "$(uname -m)" = x86_64 ]; then
    is "$unmarked" "src/softgpu/exec/coroutine.o " \
        "all is compiled with control-flow protection, but what changes stacks by itself"
else
    skip "control-flow protection is x86's here"
fi

# --- the units, as systemd judges them without running them

if command -v systemd-analyze > /dev/null; then
    mkdir "$T/units"
    for unit in "$root"/etc/*.service.in; do
        name=$(basename "${unit%.in}")
        sed -E 's/@[a-z]+dir@/\/usr\/bin/g; s/@[a-z_]+@/\/etc\/rgpu.conf/g' \
            "$unit" > "$T/units/$name"
        try 20 systemd-analyze security --offline=true "$T/units/$name"
        exposure=$(sed -n 's/.*exposure level for [^:]*: \([0-9.]*\) .*/\1/p' <<< "$out")
        # The spawner makes namespaces and users, and gives devices away: it is small instead.
        most=4.0
        [ "$name" = rgpu-spawner.service ] && most=7.0
        ok "$name: $exposure of 10, $most at most" awk \
            "BEGIN {exit !(\"$exposure\" != \"\" && $exposure + 0 <= $most)}"
        unlike "$err" "$name:[0-9]+: .*(Failed to parse|Invalid|ignoring:)" \
            "... and systemd understands it" || diag "$err"
    done
else
    skip "no systemd-analyze here" 8
fi
done_testing
