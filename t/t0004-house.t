#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The sources' layout and sizes: what `make format` writes, 100 columns, files of 800 lines,
# functions of 80, few passages twice, headers that say enough, documents of short paragraphs.
# t/lib/house.py measures; t/lib/house-exceptions names what may be longer, and why.
. "$(dirname "$0")/lib/tap.sh"

cd "$root" || exit 1
exceptions=t/lib/house-exceptions

# The findings of a check that no exception names.
findings()
{
    local allowed
    allowed=$(sed -n "s/^$1 \(.*\) - .*/\1/p" "$exceptions")
    t/lib/house.py "$@" | grep -vF "${allowed:-no exception}"
}

none()  # name, check
{
    local name=$1 found
    shift
    found=$(findings "$@")
    is "$found" "" "$name"
}

at_most()  # number, name, check
{
    local most=$1 name=$2 found
    shift 2
    found=$(findings "$@")
    if [ "$(grep -c . <<< "$found")" -le "$most" ]; then
        pass "$name ($(grep -c . <<< "$found") now)"
    else
        fail "$name"
        diag "$found"
    fi
}

if command -v clang-format > /dev/null && command -v black > /dev/null; then
    ok "make format has nothing to change" make -s format-check
else
    skip "no clang-format or no black here"
fi
if command -v shellcheck > /dev/null && command -v pyflakes3 > /dev/null; then
    try 300 make -s lint
    is "$rc $out" "0 " "make lint has nothing to say"
else
    skip "no shellcheck or no pyflakes3 here"
fi
none "no line is longer than 100 columns" widths
none "no file is longer than 800 lines" files
none "no function is longer than 80 lines" functions
at_most 20 "at most 20 passages of six lines and more stand twice in src" repeats src
at_most 20 "at most 20 of them in t" repeats t
comments=$(t/lib/house.py headers)
ok "a quarter of the headers is comment ($comments %)" [ "$comments" -ge 25 ]
ok "doc/architecture.md is read in one go: 120 lines" [ "$(wc -l < doc/architecture.md)" -le 120 ]
none "no script has a Python program of more than five lines: t/lib is for these" programs
none "documents: 80 words a paragraph, 25 a table cell, no file that is not here" prose

# Each exception must be needed.
while read -r check rest; do
    what=${rest%% - *}
    found=$(t/lib/house.py "$check")
    ok "needed: the exception for $what" grep -qF "$what" <<< "$found"
done < <(grep -v '^#' "$exceptions")

# The measures themselves, on files that break them.
mkdir -p "$T/src" "$T/t"
{
    echo '#!/bin/bash'
    echo "python3 -c 'a = 1"
    yes 'a += 1' | head -5
    echo "' && python3 - \"\$T\" << 'END'"
    yes 'print()' | head -6
    echo END
} > "$T/t/long.t"
{
    echo "# A page"
    echo
    yes word | head -81 | tr '\n' ' '
    echo
    echo
    echo "| $(yes cell | head -26 | tr '\n' ' ') |"
} > "$T/page.md"
{
    printf '// %0200d\n' 1
    echo 'int long_one()'
    echo '{'
    yes '    call();' | head -81
    echo '}'
    yes '' | head -800
} > "$T/src/a.cc"
for i in 1 2 3 4 5 6; do echo "void passage_$i();"; done | tee "$T/src/b.h" > "$T/src/c.h"
broken() { (cd "$T" && "$root/t/lib/house.py" "$@"); }
like "$(broken widths)" 'src/a.cc:1: 203 columns' "a long line is found"
like "$(broken files)" 'src/a.cc: 8[0-9]* lines' "a long file is found"
like "$(broken functions)" 'src/a.cc: long_one: 81 lines' "a long function is found"
like "$(broken repeats src)" 'src/b.h:1 ~ src/c.h:1' "a passage that stands twice is found"
is "$(broken headers)" 0 "headers without a comment count as such"
like "$(broken programs)" 't/long.t:2: .* of 6 lines.*t/long.t:8: .* of 6 lines' \
    "Python in quotes, and in a document that follows, is found"
like "$(broken prose)" 'page.md:3: a paragraph of 81 words.*page.md:5: a table cell of 26 words' \
    "a long paragraph and a long table cell are found"
echo "// see FAC""TS-x.md" > "$T/src/d.h"
like "$(broken prose)" 'src/d.h:1: names a file that is not in the repository' \
    "a reference to somebody's notes is found"
done_testing
