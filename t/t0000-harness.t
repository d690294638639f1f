#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The harness itself: a test that fails, dies or hangs is counted as failed.
. "$(dirname "$0")/lib/tap.sh"
plan 13

# A tree of its own with the harness and the tests that the case needs.
tree=$T/tree
mkdir -p "$tree/t/lib" "$tree/build"
cp "$root"/t/lib/* "$tree/t/lib/"
check()
{
    try 60 env -u PERL_TEST_HARNESS_DUMP_TAP RGPU_BUILD="$tree/build" TMPDIR="$T" \
        "$tree/t/lib/run-checks" "$@"
    last=${out##*$'\n'}
}
script() { rm -f "$tree"/t/*.t; { echo \
    '. "$(dirname "$0")/lib/tap.sh"'; cat; } > "$tree/t/t0001-x.t"; }

script <<< 'plan 3; ok "true" true; is a a "same"; skip "not here"'
check
is "$rc $last" "0 2 passed, 0 failed, 1 skipped" "passed and skipped tests are counted"
is "$(find "$T" -maxdepth 1 -name 'rgpu-t0001*')" "" "and their directory is removed"

script <<< 'plan 2; ok "false" false; ok "true" true'
check
is "$rc $last" "1 1 passed, 1 failed, 0 skipped" "a failed test is counted"
like "$out" "what is left of it: $T/rgpu-t0001" "and its directory kept and told"

script <<< 'plan 5; ok "true" true; exit 0'
check
is "$rc $last" "1 1 passed, 4 failed, 0 skipped" "what an ended script did not run has failed"

script <<< 'plan 1; ok "true" true; ok "true" true'
check
is "$rc $last" "1 2 passed, 1 failed, 0 skipped" "more tests than were planned have failed"

script <<< 'ok "true" true; kill -9 $$'
check
is "$rc $last" "1 1 passed, 1 failed, 0 skipped" "a killed script has failed"

script <<< 'plan 1; read -rt 60 < <(tail -f /dev/null)'
RGPU_TAP_LIMIT=2 check
is "$rc $last" "1 0 passed, 1 failed, 0 skipped" "a script that hangs has failed"

script <<< 'skip_all "no GPU"'
check
is "$rc $last" "0 0 passed, 0 failed, 1 skipped" "a script skipped as a whole is counted"

script <<< 'plan 1; try 1 tail -f /dev/null; is $rc 124 "limit"'
check t0001
is "$rc $last" "0 1 passed, 0 failed, 0 skipped" "try ends what takes too long"

script <<< "plan 1; start tail tail -f /dev/null; echo \$pid > $T/started; pass started"
check
not_ok "a started process is gone after the test" test -e "/proc/$(cat "$T/started")"

check t9999
is "$rc" 2 "no such test is an error"
like "$err" "t9999" "that names it"
