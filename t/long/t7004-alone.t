#!/bin/bash
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
cat > "$T/rounds.py" <<'END'
import json, os, re, statistics, subprocess, sys
build, mode, us = sys.argv[1:4]
confs = sys.argv[4:6]
rounds = []
for n in range(25):
    rate = [0, 0]
    for i in (0, 1) if n % 2 else (1, 0):
        out = subprocess.run([f'{build}/bin/rgpu', 'run', '--', f'{build}/cuda/tenant-static', f'mode={mode}', f'us={us}', 'seconds=0.7'],
                             env={**os.environ, 'RGPU_CONF': confs[i]}, capture_output=True, text=True, check=True).stdout
        kernels, seconds = re.match(r'(\d+) kernels in ([\d.]+) s', out).groups()
        rate[i] = int(kernels) / float(seconds)
    rounds.append(rate)
cost = sorted(100 * (1 - with_ / without) for with_, without in rounds)
print(json.dumps({'with': statistics.median(r[0] for r in rounds), 'without': statistics.median(r[1] for r in rounds),
                  'cost': statistics.median(cost), 'quarters': [round(c, 2) for c in statistics.quantiles(cost, n=4)]}))
END
clients "gpu1=$with"; mv "$T/rgpu.conf" "$T/with.conf"
clients "gpu2=$without"; mv "$T/rgpu.conf" "$T/without.conf"
for load in "async 20" "async 200" "sync 200"; do
    set -- $load
    got=$(python3 "$T/rounds.py" "$build" "$1" "$2" "$T/with.conf" "$T/without.conf")
    at_most cost 1 "$1 kernels of $2 us: what turns cost one tenant alone (percent)"
    note "$got"
done
done_testing
