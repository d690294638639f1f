#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# contrib/release: what it demands of the tree, and a tarball that is the same each time.
. "$(dirname "$0")/lib/tap.sh"
plan 9

command -v git > /dev/null || skip_all "git is not installed"
git -C "$root" rev-parse -q --verify HEAD > /dev/null || skip_all "this tree is no clone"
git clone -q "$root" "$T/tree" || bail "no clone"
cd "$T/tree" || bail "no $T/tree"
cp "$root/contrib/release" contrib/release
git config user.name rgpu && git config user.email rgpu@localhost

try 20 contrib/release 1.2
is "$rc" 2 "a version that is none is wrong usage"
echo change >> README.md
try 20 contrib/release 9.8.7
is "$rc" 1 "a tree that is not ready is refused"
like "$err" \
    "not committed.*configure.ac says 0.*debian/changelog begins.*spec says 0.*NEWS.md begins" \
    "with everything that is missing, at once"
git checkout -q README.md

sed -i 's/^AC_INIT(.*/AC_INIT([rgpu], [9.8.7])/' configure.ac
sed -i '1s/(.*)/(9.8.7)/' debian/changelog
sed -i 's/^Version: .*/Version: 9.8.7/; s/^\* .*/* Wed Jan 02 2030 rgpu <a@b> - 9.8.7-1/' \
    contrib/rpm/rgpu.spec
sed -i '0,/^## .*/s//## 9.8.7 (2030-01-02)/' NEWS.md
git commit -qam "release: 9.8.7"
try 60 contrib/release --dry-run 9.8.7
is "$rc" 0 "a dry run of one that is ready succeeds" || diag "$err"
first=$(sha256sum < build/rgpu-9.8.7.tar.gz)
try 60 contrib/release --dry-run 9.8.7
is "$(sha256sum < build/rgpu-9.8.7.tar.gz)" "$first" "two tarballs of a commit are equal"
is "$(tar -xOzf build/rgpu-9.8.7.tar.gz rgpu-9.8.7/COMMIT)" "$(git rev-parse --short=12 HEAD)" \
    "the tarball knows its commit"
is "$(git tag)" "" "a dry run makes no tag"
git tag v9.8.7
try 20 contrib/release --dry-run 9.8.7
like "$rc $err" "1 release: the tag v9.8.7 exists" "a release is made once"

# What a stranger unpacks says what it is.
mkdir "$T/unpacked" && tar -xzf build/rgpu-9.8.7.tar.gz -C "$T/unpacked"
is "$(make -s -C "$T/unpacked/rgpu-9.8.7" -pn help 2> /dev/null | sed -n 's/^commit := //p')" \
    "$(git rev-parse --short=12 HEAD)" "a build of the tarball has the commit, without git"
