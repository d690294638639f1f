#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One tenant alone pays at most 1% for being scheduled: an always-busy loop of short kernels, with
# turns and without, a round of one after a round of the other.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/rgpud.sh"
. "$(dirname "$0")/../lib/sharing.sh"

server
# The same without turns: its workers are told of no board.
cat > "$T/worker-without" <<END
#!/bin/sh
unset RGPU_WORKER_BOARDS
exec "$build/libexec/rgpu-worker" "\$@"
END
chmod 755 "$T/worker-without"
with=$control
rgpud gpu2 'softgpu_devices = 1' 'softgpu_memory = "256M"' "worker = \"$T/worker-without\""
without=$control

# Each round is compared with the one beside it: what else the machine does meanwhile changes more
# slowly than that.
clients "gpu1=$with"; mv "$T/rgpu.conf" "$T/with.conf"
clients "gpu2=$without"; mv "$T/rgpu.conf" "$T/without.conf"
for load in "async 20" "async 200" "sync 200"; do
    # shellcheck disable=SC2086 # its words
    set -- $load
    got=$(python3 "$py/alone_rounds.py" "$build" "$1" "$2" "$T/with.conf" "$T/without.conf")
    at_most cost 1 "$1 kernels of $2 us: what turns cost one tenant alone (percent)"
    note "$got"
done
done_testing
