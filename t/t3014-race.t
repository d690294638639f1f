#!/bin/bash
# Forty clients race for eight GPUs and some are killed: never two owners, never a GPU left locked.
#
# RGPU_RACE_SECONDS: how long; 15, with make check-long 120.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu
seconds=${RGPU_RACE_SECONDS:-${RGPU_LONG:+120}}
seconds=${seconds:-15}

rgpud gpu1 'softgpu_devices = 4'
one=$control
rgpud gpu2 'softgpu_devices = 4'
clients "gpu1=$one" "gpu2=$control"
mkdir "$T/gpus" "$T/double" "$T/did"

# What a program with a lease does: a directory for each of its GPUs is made by nobody else
# meanwhile.
cat > "$T/own" <<'END'
#!/usr/bin/env python3
import json, os, sys, time, random
top = sys.argv[1]
gpus = [g["uuid"] for s in json.load(open(os.environ["RGPU_LEASE"]))["servers"] for g in s["gpus"]]
mine = f"{top}/gpus/.{os.getpid()}"
for gpu in gpus:
    # Made with its pid in it, and moved to its place at once: only an empty place can be taken.
    os.mkdir(f"{mine}.{gpu}")
    open(f"{mine}.{gpu}/pid", "w").write(str(os.getpid()))
    try:
        os.rename(f"{mine}.{gpu}", f"{top}/gpus/{gpu}")
        continue
    except OSError:
        pass
    try:
        owner = int(open(f"{top}/gpus/{gpu}/pid").read())
    except (FileNotFoundError, ValueError):
        owner = 0
    # A client that was killed left it; its program is dead.
    if owner and os.path.exists(f"/proc/{owner}/exe") and "own" in open(f"/proc/{owner}/cmdline").read():
        open(f"{top}/double/{gpu}.{owner}.{os.getpid()}", "w")
    open(f"{top}/gpus/{gpu}/pid", "w").write(str(os.getpid()))
time.sleep(random.random() * 0.2)  # the program's work
for gpu in gpus:
    try:
        os.unlink(f"{top}/gpus/{gpu}/pid")
        os.rmdir(f"{top}/gpus/{gpu}")
    except OSError:
        pass  # its next owner is there
servers = len(json.load(open(os.environ["RGPU_LEASE"]))["servers"])
open(f"{top}/did/{os.getpid()}.{servers}", "w")
END
chmod 755 "$T/own"
cat > "$T/race.py" <<'END'
import os, random, signal, subprocess, sys, time
rgpu, top, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
random.seed(1)
end, running, started, killed = time.monotonic() + seconds, {}, 0, 0
while time.monotonic() < end:
    while len(running) < 40:
        # Some take GPUs of both servers, where neither has enough.
        n, span = random.choice([(1, []), (1, []), (1, []), (2, []), (2, []), (4, []), (2, ["--span"]), (3, ["--span"]), (3, ["--span"])])
        # A group of its own: a kill takes the client and its program, as the death of a host does.
        p = subprocess.Popen([rgpu, "run", "-n", str(n), *span, "--wait", "60s", "--", top + "/own", top],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        running[p.pid] = p
        started += 1
    if random.random() < 0.2:
        os.killpg(random.choice(list(running)), signal.SIGKILL)
        killed += 1
    for pid in [pid for pid, p in running.items() if p.poll() is not None]:
        del running[pid]
    time.sleep(0.05)
for p in running.values():
    os.killpg(p.pid, signal.SIGTERM)
for p in running.values():
    p.wait()
print(started, killed)
END
try $((seconds + 60)) python3 "$T/race.py" "$rgpu" "$T" "$seconds"
read -r started killed <<< "$out"
is "$rc" 0 "forty clients raced for $seconds s: $started started, $killed of them killed" || diag "$err"
ok "... $(ls "$T/did" | wc -l) had their GPUs and ended, $(ls "$T/did" | grep -c '\.2$') of them those of two servers" test "$(ls "$T/did" | wc -l)" -ge 10
is "$(ls "$T/double")" "" "no GPU had two owners at once"
all_free() { "$rgpu" list | tail -n 1 | grep -q '^8 of 8 '; }
ok "no GPU is left locked" wait_for 20 all_free
is "$("$rgpu" leases --json | grep -c '"id"')" 0 "no lease is left"
unlike "$(cat "$T/gpu1.log" "$T/gpu2.log")" 'sold twice| error: ' "no server noticed anything wrong"
done_testing
