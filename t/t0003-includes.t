#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Who may include whom: doc/architecture.md has the tables, t/lib/includes.py holds the sources to
# them. No file includes upward, and no two include each other.
. "$(dirname "$0")/lib/tap.sh"

cd "$root" || exit 1
is "$(t/lib/includes.py .)" "" \
    "every include is one that doc/architecture.md allows, and there is no cycle anywhere"

# A tree of three files in which each rule is broken once.
mkdir -p "$T/doc" "$T/src/low" "$T/src/high/below" "$T/src/high/above"
cat > "$T/doc/architecture.md" <<'PAGE'
| folder | builds | may include |
|---|---|---|
| `src/low` | a library | - |
| `src/high` | a program | low |

| folder | sub-folders, lowest first |
|---|---|
| `src/high` | below, above |
PAGE
touch "$T/src/low/a.h" "$T/src/high/above/c.h"
echo '#include "low/a.h"' > "$T/src/high/below/b.h"
ok "a tree that keeps to its tables passes" t/lib/includes.py "$T"

breaks()  # file, what is in it, what is said of it, name
{
    local file=$T/src/$1 before
    before=$(cat "$file" 2> /dev/null)
    mkdir -p "${file%/*}"
    echo "$2" >> "$file"
    try 20 t/lib/includes.py "$T"
    like "$rc $out" "^1 $3" "$4"
    if [ -n "$before" ]; then echo "$before" > "$file"; else rm "$file"; fi
}

breaks low/up.h '#include "high/below/b.h"' 'low/up.h: may not include high/below/b.h' \
    "an include that the first table does not allow is found"
breaks high/below/up.h '#include "high/above/c.h"' 'high/below/up.h: stands below high/above/c.h' \
    "an include from a lower sub-folder to a higher one is found"
breaks other/d.h '#include "low/a.h"' 'other/d.h: no table names its folder' \
    "a folder that no table names is found"
echo '#include "low/two.h"' > "$T/src/low/one.h"
touch "$T/src/low/two.h"
breaks low/two.cc '#include "low/one.h"' 'a cycle: low/one, low/two' \
    "two names that include each other are found, through a .cc as well"
done_testing
