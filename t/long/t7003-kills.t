#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A worker is killed while its tenant has the token, 100 times: the others never wait longer than 50
# ms for it.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/rgpud.sh"
. "$(dirname "$0")/../lib/sharing.sh"

server
tenants_start 110 "30-100 us=1000" "30-100 us=1000"
begun() { python3 -c "import sys, time; sys.exit(time.time() < $begin + 0.5)"; }
wait_for 10 begun
killed=$(python3 "$root/t/lib/killer.py" "$pid" "$control" 40 100 "$T/kills" "$build/bin/rgpu" run \
    -p 40-100 -m 32M -- \
    "$build/cuda/tenant-static" us=20000 seconds=20)
is "$killed" 100 "100 workers are killed while their work runs"
tenants_wait
got=$(python3 "$root/t/lib/shares.py" --times "$T/kills" "${tenant_files[@]}")
ok "with the token: $(got held) of 100" [ "$(got held)" -ge 80 ]
at_most "1000 * wait" 50 "the longest time until another kernel ran (milliseconds)"
done_testing
