#!/bin/bash
# One tenant alone pays at most 1% for being scheduled: an always-busy loop of short kernels, with turns and without, a round of one
# after a round of the other.
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

cat > "$T/rounds.py" <<'END'
import json, os, re, statistics, subprocess, sys
build, t, mode, us = sys.argv[1:5]
confs = sys.argv[5:7]
rates = ([], [])
for n in range(9):
    for i in (0, 1) if n % 2 else (1, 0):
        out = subprocess.run([f'{build}/bin/rgpu', 'run', '--', f'{build}/cuda/tenant-static', f'mode={mode}', f'us={us}', 'seconds=1.5'],
                             env={**os.environ, 'RGPU_CONF': confs[i]}, capture_output=True, text=True, check=True).stdout
        kernels, seconds = re.match(r'(\d+) kernels in ([\d.]+) s', out).groups()
        rates[i].append(int(kernels) / float(seconds))
with_, without = (statistics.median(r) for r in rates)
print(json.dumps({'with': with_, 'without': without, 'cost': 100 * (1 - with_ / without)}))
END
clients "gpu1=$with"; mv "$T/rgpu.conf" "$T/with.conf"
clients "gpu2=$without"; mv "$T/rgpu.conf" "$T/without.conf"
# Kernels of 20 us keep the processors of a small machine busy with launching itself: what any thread does then shows.
for load in "async 20 3" "async 200 1" "sync 200 1"; do
    set -- $load
    got=$(python3 "$T/rounds.py" "$build" "$T" "$1" "$2" "$T/with.conf" "$T/without.conf")
    at_most cost "$3" "$1 kernels of $2 us: what turns cost one tenant alone (percent)"
    note "$got"
done
done_testing
