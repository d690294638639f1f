#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# On a machine with an NVIDIA GPU: every program of contrib/gpu-check, directly and remotely.
# Skipped elsewhere.
. "$(dirname "$0")/lib/tap.sh"

[ -e /dev/nvidiactl ] || skip_all "no NVIDIA GPU here (no /dev/nvidiactl)"
try 1800 env RGPU_BUILD="$build" "$root/contrib/gpu-check" -o "$T/out"
[ "$rc" = 2 ] && skip_all "the GPU's driver does not start: $(tail -n 1 <<< "$err")"
while IFS='|' read -r _ program native remote _ _ verdict _; do
    verdict=${verdict# }
    case $verdict in
    right*) pass "$program" ;;
    wrong*) fail "$program: $verdict" ;;
    left*) skip "$program: $verdict" ;;
    no*) skip "$program: $verdict" ;;
    esac
done < <(grep -E '^\| [a-z]' "$T/out/table.md" | grep -v '^| program')
diag "$(cat "$T/out/table.md")"
done_testing
