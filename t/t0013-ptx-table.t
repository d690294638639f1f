#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# doc/ptx.md is what the instruction table says, and the table has the groups that programs need.
. "$(dirname "$0")/lib/tap.sh"

try 60 "$root/contrib/ptx-coverage"
is "$rc" 0 "the page can be made" || diag "$err"
is "$(diff "$root/doc/ptx.md" <(echo "$out") | head -n 20)" "" \
    "doc/ptx.md is up to date (make ptx-table)"
for opcode in add mad24 dp4a bfe prmt lop3 fma cvt ex2 setp ld st atom red bar shfl vote match \
    redux elect cp mbarrier ldmatrix mma \
    wmma bra brx call trap nanosleep tex tld4 vadd vset4; do
    like "$out" "\\| \`$opcode\` \\|" "$opcode is in the table"
done
done_testing
