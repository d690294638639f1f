#!/bin/bash
# A plain driver call stands in one place under src/: its line in src/calls/table. The software
# driver is a driver and defines every call, so it does not count; nor does code that uses a call
# for its own ends, which says so:
# the worker with DRIVER(cuX) or REAL(cuX), the client with CallId::cuX.
. "$(dirname "$0")/lib/tap.sh"

cd "$root" || exit 1
plain=$(sed -nE 's/^CALL(_PTSZ|_PTDS)?\((cu[A-Za-z0-9_]+), [0-9]+, [a-z]+, plain,.*/\2/p' \
    src/calls/table/*.def)
count=$(echo "$plain" | wc -l)
[ "$count" -gt 40 ] && pass "the table has $count plain calls" ||
    fail "the table has $count plain calls"

elsewhere=
while IFS=: read -r file call; do
    elsewhere+="$file: $call"$'\n'
done < <(grep -rowHF --include='*.cc' --include='*.h' -f <(echo "$plain") src/interpose \
    src/serverd src/rgpud src/worker src/wire src/net |
         sort -u | while IFS=: read -r file call; do
             grep -wF "$call" "$file" |
                 sed -E "s/(DRIVER|REAL)\($call\)//g; s/CallId::$call\b//g; s,//.*,," |
                 grep -qwF "$call" &&
                 echo "$file:$call"
         done)
is "$elsewhere" "" "none of them stands anywhere else in the client or the server"

twice=$(cat src/calls/table/*.def | sed -nE 's/^(CALL|NONE)[A-Z_]*\((cu[A-Za-z0-9_]+),.*/\2/p' |
    sort | uniq -d)
is "$twice" "" "no call has two lines"
done_testing
