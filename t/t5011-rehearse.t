#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# contrib/rehearse: rgpu's commands with a made-up pool, with more servers than a login may have
# files open, and with a whole Slurm.
. "$(dirname "$0")/lib/tap.sh"

export RGPU_BUILD=$build TMPDIR=$T
rehearse() { try 200 "$root/contrib/rehearse" "$@"; }
# cell ROW COLUMN
cell() { awk -F ' *[|] *' -v row="$1" -v column="$2" '$3 == row {print $column}' <<< "$out"; }

rehearse --servers 20 --rounds 2 --at-once 1,3
is "$rc $err" "0 " "twenty servers"
is "$(cell "rgpu list" 8)" 20 "rgpu list asks each of them once"
is "$(cell "rgpu slurm sync --snapshot-only" 8)" 20 "... as rgpu slurm sync does"
is "$(cell "rgpu request, 1 at once" 8)" 40 "a reservation asks each twice"
is "$(cell "rgpu release, 3 at once" 8)" 1 "a release asks one"
is "$(cell "rgpu request, 3 at once" 9) $(cell "rgpu release, 3 at once" 9)" "0 of 6 0 of 6" \
    "of some beside each other none fails"

rehearse --slurm 4 --servers 3 --rate 3 --seconds 2
is "$rc $err" "0 " "a Slurm of four nodes, and six jobs of each kind"
is "$(awk -F ' *[|] *' '$2 == "plain" || $2 == "rgpu" {print $2, $3, $12}' <<<"$out")" \
    $'plain 6 0\nrgpu 6 0' "... and each job has run, with its lease or without"
like "$out" "rgpu slurm sync afterwards" "... and the pool was compared with Slurm"

[ "$(ulimit -Hn)" = unlimited ] || [ "$(ulimit -Hn)" -ge 8192 ] ||
    { skip "no more than $(ulimit -Hn) files may be open here" 2; done_testing; exit; }
rehearse --servers 1200 --leases 1 --rounds 1 --at-once 1
is "$rc $err" "0 " "1,200 servers, and 1,024 files that may be open"
is "$(cell "rgpu list" 8) $(cell "rgpu request, 1 at once" 8)" "1200 2400" "each is asked"
done_testing
