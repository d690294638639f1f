#!/bin/bash
# doc/licences.md names everything that the products are linked with, and the licences are there.
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
done_testing
