#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# doc/driver-calls.md is what the table and the lists of tested calls say.
. "$(dirname "$0")/lib/tap.sh"

page=$root/doc/driver-calls.md
try 60 "$root/contrib/coverage-table" --cuda "${cuda_libs%/*}"
is "$rc" 0 "the page can be made" || diag "$err"
if [ "$(head -n 1 "$page")" = "$(head -n 1 <<< "$out")" ]; then
    is "$(diff <(cat "$page") <(echo "$out") | head -n 20)" "" \
        "doc/driver-calls.md is up to date (make coverage-table)"
else
    skip "the page is for another CUDA Toolkit: $(head -n 1 "$page")"
fi
rows=$(grep -cE '^\| cu' "$page")
[ "$rows" -gt 400 ] && pass "$rows rows" || fail "$rows rows"
like "$(sed -n 's/^[0-9]* functions.*/&/p' "$page")" \
    "^[0-9]+ functions, [0-9]+ of them carried out, [1-9][0-9]* tested on softgpu" "the page counts"
is "$(grep -E '^\| cu.*\| no: ' "$page" | grep -vE '\| no: [^|]+: [^|]+\|')" "" \
    "each refused call says what a program sees or does instead"
known=$(sed -nE 's/^\| (cu[A-Za-z0-9_]+).*/\1/p' "$page")
is "$(cat "$root"/t/lib/calls-*.list | grep -v '^#' | sed -E 's/_pt[ds][sz]$//' | sort -u |
    comm -23 - <(sort -u <<< "$known"))" "" "the lists name calls of the table"
done_testing
