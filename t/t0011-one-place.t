#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A plain driver call stands in one place under src/: its line in src/calls/table. Another one
# stands there and where its handler is written. The software driver is a driver and defines every
# call, so it does not count; nor does code that uses a call for its own ends, which says so:
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

# All that the client library keeps belongs to its Client, so that a test can have two.
is "$(grep -rnE '^ *static .*= \*?new ' src/interpose)" "" \
    "no function keeps an object of its own: it is a part of the Client (interpose/state/client.h)"

# Each part of a client has one type: two that shared a name would be cast to each other.
twice=$(grep -rhoE 'Part::[a-z]\w+' src/interpose | sort | uniq -d)
parts=$(sed -n "/^enum class Part/,/kCount/p" src/interpose/state/client.h |
    grep -oE "^    [a-z]\w+")
is "$twice" "" "no part of a client is made in two places"
unused=$(for part in $parts; do
    grep -rq "Part::$part\\b" src/interpose || echo "$part"
done)
is "$unused" "" "every part that has a name is made somewhere"

# Facts about calls are words of their lines: nobody else names a call to tell it from others.
is "$(t/lib/call_names.py)" "" "no call's name stands where its line should speak"

mkdir -p "$T/src/calls/table" "$T/src/worker/calls"
cp src/calls/table/*.def "$T/src/calls/table"
cat > "$T/src/worker/calls/fair.cc" <<'EOF'
// cuMemAlloc_v2 is used below, and cuEventQuery handled.
CUresult r = DRIVER(cuMemAlloc_v2)(&p, n);
post(CallId::cuMemFree_v2, "cuMemFree_v2 failed");
Result<void> cuEventQuery(Session &s, Call &call)
{
    return serve<CallId::cuEventQuery>(s, call);
}
EOF
ok "calls that are used, and one that is handled, are none of these" t/lib/call_names.py "$T"
tells()  # line of code, what is said of it, name
{
    echo "$1" > "$T/src/worker/calls/unfair.cc"
    like "$(t/lib/call_names.py "$T")" "^src/worker/calls/unfair.cc:1: $2" "$3"
}
tells 'if (call.id == CallId::cuEventQuery) send();' 'tells calls apart' \
    "a call that is told from others is found"
tells '    case calls::CallId::cuEventQuery: return true;' 'tells calls apart' "so is a case"
tells 'symbol.starts_with("cuMemset")' 'tells calls apart' "so is the beginning of a name"
tells 'for (CallId c : {cuEventQuery})' 'cuEventQuery' "so is a name by itself"

# A line that contradicts itself does not compile.
does_not_compile()  # sed's change of memory.def, what is said of it, name
{
    cp -r src/calls "$T/src"
    sed -i "$1" "$T/src/calls/table/memory.def"
    local compiler
    read -ra compiler <<< "${CXX:-g++}"
    try 60 "${compiler[@]}" -std=c++20 -fsyntax-only -I"$T/src" -isystem "$cuda/include" \
        "$T/src/calls/table_check.cc"
    like "$rc $err" "^1 .*$2" "$3"
}
cuda=${RGPU_CUDA_LIBDIR:-/usr/local/cuda/lib64}
cuda=${cuda%/lib64}
does_not_compile 's/^\(CALL(cuMemAlloc_v2.*\) | takes_memory)/\1)/' \
    'the line of cuMemAlloc_v2 contradicts itself' "an address that is given, and no memory taken"
does_not_compile 's/^\(CALL(cuMemGetInfo_v2.*\))$/\1 | takes_memory)/' \
    'a line says the same column twice' "two words of one column"
does_not_compile 's/^\(CALL(cuMemFreeHost.*\))$/\1 | work)/' \
    'the line of cuMemFreeHost contradicts itself' "work of a call that is never sent"
does_not_compile 's/^\(CALL(cuMemHostGetFlags.*\))$/\1, unknown_word)/' 'unknown_word' \
    "a word that there is not"
done_testing
