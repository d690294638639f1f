#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# doc/licences.md names everything that the products are linked with, and the licences are there;
# each source, script and test says that it is under the Apache License.
. "$(dirname "$0")/lib/tap.sh"

page=$root/doc/licences.md
cmp -s /usr/share/common-licenses/Apache-2.0 "$root/LICENSE"
case $? in
0) pass "LICENSE is the Apache License 2.0, to the byte" ;;
1) fail "LICENSE is the Apache License 2.0, to the byte" ;;
*) skip "this system has no /usr/share/common-licenses" ;;
esac
products=$(cd "$build" && ls bin/rgpu sbin/* libexec/* lib/*/*.so.1 lib/softgpu/*.so \
    lib/slurm/*.so lib/smi/nvidia-smi 2> /dev/null)
needed()
{
    local product
    for product in $products; do
        readelf -dW "$build/$product" | sed -n 's/.*(NEEDED).*\[\(.*\.so\).*/\1/p'
    done | sort -u
}
is "$(($(needed | wc -l) >= 10))" 1 "readelf shows what the products need"
is "$(needed | while read -r library; do
    grep -qE "^\| .*\b${library//+/\\+}[ ,]" "$page" || echo "$library"; done)" "" \
    "each library has a licence in doc/licences.md"
# configure's list has what is headers only, too.
is "$(sed -n 's/^RGPU_LIBRARY(\[[A-Z0-9]*\], \[\([^]]*\)\].*/\1/p' "$root/configure.ac" |
    while read -r name; do grep -qi -- "$name" "$page" || echo "$name"; done)" "" \
    "... and everything that configure looks for"
is "$(sed -n 's/^License: //p' "$root/debian/copyright" | sort -u)" "Apache-2.0" \
    "debian/copyright says the same"

# --- in the files themselves

lines=$root/t/lib/licence_lines.py
if git -C "$root" rev-parse -q --verify HEAD > /dev/null 2>&1; then
    is "$(cd "$root" && "$lines")" "" "each source, script and test has one (--add adds it)"
else
    skip "this tree is no clone"
fi
mkdir -p "$T/tree/etc" "$T/tree/doc" && cd "$T/tree" && git init -q . || bail "no git"
spdx="SPDX-License-Identifier: Apache-2.0"
echo "int a;" > a.cc
printf '// %s\nint b;\n' "$spdx" > b.cc
printf '// In line 1.\n\n// %s\nint c;\n' "$spdx" > c.cc
printf '// %s OR MIT\n' "$spdx" > d.h
printf '#!/bin/sh\necho e\n' > etc/e
echo "f = 1" > etc/f.conf
echo "A page." > doc/g.md
git add .
is "$("$lines" | xargs)" "a.cc c.cc d.h etc/e" "a file without it, or with another, is found"
"$lines" --add
is "$("$lines")" "" "--add adds it"
is "$(cat etc/e)" "#!/bin/sh
# $spdx
echo e" "... below the line that names the interpreter"
is "$(cat etc/f.conf doc/g.md)" "f = 1
A page." "... and not to what is exempt"
done_testing
