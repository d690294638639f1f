# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the tests of lost servers add to slurm.sh:  . "$(dirname "$0")/lib/lost.sh"   (after
# cluster_up)
#
#   configure LINES...    these lines, and no others, are added below [slurm] of rgpu.conf; scripts
#                         read it each time
#   fails_at FILE         the text of a script that fails when FILE appears, as a program does that
#                         gets an error of each call
#   runs ID, is_requeued ID, has_note ID   for wait_for
#   other_of SERVER       the other server
#   back SERVER           starts it again; returns when all servers answer

python3 - "$RGPU_CONF" "$T/rgpu.conf" <<'PY'
import re, sys
text = open(sys.argv[1]).read()
slurm = re.search(r'\[slurm\].*?(?=\n\[|\Z)', text, re.S).group(0)
open(sys.argv[2], 'w').write(text.replace(slurm, '') + '\n' + slurm + '\n')
PY
configure() { { cat "$T/rgpu.conf"; printf '%s\n' "$@"; } > "$T/new.conf" &&
    mv "$T/new.conf" "$RGPU_CONF"; }
fails_at() { printf '%s; exit 3' "$(until_file "$1")"; }
runs() { is_state "$1" RUNNING; }
is_requeued() { [ "$(job_state "$1") $(restarts "$1")" = "PENDING 1" ] ||
    { scontrol show job "$1"; return 1; }; }
has_note() { [ -n "$(note_of "$1")" ]; }
other_of() { [ "$1" = gpu1 ] && echo gpu2 || echo gpu1; }
answer() { rgpu list --json | json_true 'all(s["reachable"] for s in j["servers"])'; }
back() { start_rgpud "$1"; wait_for 30 answer; }
