#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What someone at a terminal sees while rgpu run waits: one line that says for what, for how long,
# and a bar.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu

rgpud gpu1
clients "gpu1=$control"
start holds "$rgpu" run -n 2 -- sh -c "while [ ! -e '$T/enough' ]; do sleep 0.1; done"
taken() { "$rgpu" list | grep -q '^0 of 2 GPUs free'; }
wait_for 10 taken

# The GPUs are given back when the line has been there for two seconds.
try 60 python3 "$py/terminal_to_file.py" "$T/screen" "$T/enough" 200 "$rgpu" run -n 1 --wait 50s \
    -- echo mine
is "$rc" 0 "it waits, gets the GPU and runs the command" || diag "$err"
# Each time it is written anew: from the line's start, cleared first.
lines=$(tr -d '\r\n' < "$T/screen" | sed 's/\x1b\[K/\n/g')
sentence='rgpu: waiting for GPUs \([0-9]+s, at most 50s\) \[[#.]{20}\]: gpu1: 0 of its 2 GPUs '
sentence+='have enough free now, 1 is wanted'
like "$lines" "$sentence" \
    "a line says for what, for how long, and how much of the limit is over"
ok "it is written anew as the time goes on" [ \
    "$(grep -o 'waiting for GPUs ([0-9]*s' <<< "$lines" | sort -u | wc -l)" -ge 2 ]
is "$(grep -c 'waiting.*waiting' <<< "$lines")" 0 "... each time cleared first"
is "$(tr -d '\r' < "$T/screen" | grep -c waiting)" 1 "... on the same line"
is "$(tail -n 1 <<< "$lines")" mine "it is gone when the command begins"

start holds "$rgpu" run -n 2 -- sh -c "while [ ! -e '$T/again' ]; do sleep 0.1; done"
wait_for 10 taken
try 60 python3 "$py/terminal_to_file.py" "$T/screen" "$T/again" 80 "$rgpu" run -n 1 --wait 50s -- \
    echo mine
lines=$(tr -d '\r\n' < "$T/screen" | sed 's/\x1b\[K/\n/g')
ok "on a narrow terminal the line is cut" grep -qE \
    'waiting for GPUs \([0-9]+s, at most 50s\) \[[#.]{20}\]: gpu1.*\.\.\.$' <(echo "$lines")
is "$(awk 'length > 79' <<< "$lines")" "" "... so that it never wraps"
done_testing
