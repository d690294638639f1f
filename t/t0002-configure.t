#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# configure names everything that is missing at once, with its Debian package.
. "$(dirname "$0")/lib/tap.sh"
plan 12

mkdir -p "$T/tree/src/util" "$T/empty"
cp "$root/configure.ac" "$root/config.mk.in" "$T/tree"
cp "$root/src/util/result.h" "$T/tree/src/util"
cd "$T/tree" || bail "no $T/tree"
ok "autoconf makes configure" autoconf

# A linker that finds no library but the compiler's own stands for a machine that has none of ours.
cat > "$T/g++" <<'END'
#!/bin/bash
for argument; do case $argument in -lmunge | -lhwloc) exit 1 ;; esac; done
exec g++ "$@"
END
chmod +x "$T/g++"
try 120 ./configure CXX="$T/g++" --with-cuda="$T/empty" --with-slurm="$T/empty" \
    --with-llvm-config=/bin/false
not_ok "configure fails" test "$rc" = 0
like "$err" "CUDA Toolkit .* in $T/empty .*--with-cuda" "it names the CUDA Toolkit"
like "$err" "Debian: llvm-19-dev" "and LLVM's package"
like "$err" "Debian: libmunge-dev" "and MUNGE's"
like "$err" "Debian: libhwloc-dev" "and hwloc's"
# /usr/include holds Slurm's headers whatever --with-slurm says, so they may or may not be missed
# here.
unlike "$err" "libzstd-dev" "but not what is there"
not_ok "and writes no config.mk" test -e config.mk

try 120 ./configure --with-cuda="${cuda_libs%/*}"
is "$rc" 0 "with everything there it succeeds" || diag "$err"

sed -i 's/-lmunge | -lhwloc/-lcriterion/' "$T/g++"
try 120 ./configure CXX="$T/g++" --with-cuda="${cuda_libs%/*}"
like "$rc $err" "^1 .*Debian: libcriterion-dev" "the tests need Criterion"
try 120 ./configure CXX="$T/g++" --with-cuda="${cuda_libs%/*}" --disable-tests
is "$rc" 0 "builds of packages go without it" || diag "$err"
is "$(sed -n 's/^CRITERION_LIBS *:= *//p' config.mk)" "" "... and link nothing with it"
