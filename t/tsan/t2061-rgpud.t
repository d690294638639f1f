#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rgpud's own tests with rgpud under ThreadSanitizer: requests, leases and programs at the same
# moment, floods, restarts. As t2060.
. "$(dirname "$0")/../lib/tap.sh"
tsan=${RGPU_TSAN:-$build-tsan}
[ -x "$tsan/sbin/rgpud" ] || bail "$tsan has no rgpud: make check-tsan builds it"

cat > "$T/rgpud" <<END
#!/bin/sh
TSAN_OPTIONS='suppressions=$root/t/lib/tsan.supp history_size=5 second_deadlock_stack=1'
TSAN_OPTIONS="\$TSAN_OPTIONS exitcode=0 log_path=$T/report"
export TSAN_OPTIONS
exec $tsan/sbin/rgpud "\$@"
END
chmod 755 "$T" "$T/rgpud"
reports() { ! cat "$T"/report.* 2> /dev/null; }

for test in t3000-offers t3001-control t3012-flood t3013-hold t3014-race t3015-warm t3020-span; do
    rm -f "$T"/report.*
    try 300 env rgpud_program="$T/rgpud" "$root/t/$test.t"
    is "$rc" 0 "$test" || diag "$(grep -A 8 '^not ok' <<< "$out")$err"
    ok "... without a race" reports
done
done_testing
