#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The terminal session of README.md is what such a session shows today.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"

for file in slurmctld slurmd munged; do
    PATH=$PATH:/usr/sbin command -v $file > /dev/null || skip_all "$file is not installed"
done
"$build/venv/bin/python3" -c "import tinygrad" 2> /dev/null || skip_all "no $build/venv: make venv"
compgen -G '/dev/nvidia*' > /dev/null && skip_all "this machine's GPUs are others than those drawn"
lines() { python3 "$py/session_lines.py" "$1"; }

export RGPU_BUILD=$build RGPU_CUDA_LIBDIR=$cuda_libs TMPDIR=$T
try 300 "$root/contrib/session-svg" "$T/session.svg"
is "$rc" 0 "contrib/session-svg records a session" || bail "$out$err"
ok "each line is shown, one after the other" lines "$T/session.svg"
is "$(lines "$T/session.svg")" "$(lines "$root/doc/session.svg")" \
    "doc/session.svg shows the same, but for numbers: make session-svg"
sed 's/GPUs free/GPUs are free/' "$root/doc/session.svg" > "$T/old.svg"
isnt=$(diff <(lines "$T/session.svg") <(lines "$T/old.svg") | grep -c '^>')
is "$isnt" 1 "... one that is out of date is found"
like "$(cat "$root/README.md")" '\]\(doc/session.svg\)' "README.md has it"
is "$(pgrep -f "RGPU_MINICLUSTER=$T/" | wc -l) $(find "$T" -name 'rgpu-session*')" "0 " \
    "nothing is left of the cluster"
done_testing
