#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Files are read by the program's own process, with its rights: there is one answer for all that
# cannot be read, and no path reaches a server (t3501-frames.t sends one).
. "$(dirname "$0")/lib/tap.sh"
. "$root/t/lib/rgpud.sh"

rgpud gpu1
clients gpu1="$control"
mkdir "$T/folder"
ln -s loop "$T/loop"
try 60 "$build/bin/rgpu" run --wait 30s -- python3 "$root/t/lib/paths.py" /nonexistent "$T/folder" \
    "$T/loop" "$T/rgpu.conf/below" '' \
    "$(printf 'a%.0s' $(seq 5000))" /proc/self/mem
is "$rc" 0 "the program ends well" || diag "$err"
for call in cuModuleLoad cuLibraryLoadFromFile cuLinkAddFile_v2; do
    is "$(grep "^$call " <<< "$out")" "$call 301" "$call: one answer for whatever cannot be read"
done
done_testing
