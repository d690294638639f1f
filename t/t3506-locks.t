#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Hostile: a tenant who controls his worker keeps every lock that he has a descriptor or a file for,
# and writes nonsense into all that workers share. His neighbours on the same GPU, and rgpud, go on
# as fast as before.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu
program=$build/cuda/memory_cap-static
[ -x "$program" ] || skip_all "$program is not built; run make cuda"
[ "$(id -u)" = 0 ] && worker_user=nobody

# The first worker that starts once there is $T/hostile/on is the tenant's.
mkdir -m 777 "$T/hostile"
cat > "$T/worker" <<END
#!/bin/sh
if [ \$# = 0 ] && [ -e "$T/hostile/on" ] && mkdir "$T/hostile/taken" 2> /dev/null; then
    HOSTILE_READY="$T/hostile/ready" exec python3 "$root/t/lib/holds_all.py" "$T/gpu1.state"
fi
exec "$build/libexec/rgpu-worker" "\$@"
END
chmod 755 "$T/worker"
rgpud gpu1 'softgpu_memory = "256M"' 'softgpu_devices = 1' 'warm = false' "worker = \"$T/worker\""
clients "gpu1=$control"

now() { date +%s%3N; }
# Linear memory in 50 steps, a context, a module, a launch: sets $ms.
neighbour()
{
    local from
    from=$(now)
    try 30 "$rgpu" run -p 0.3 -m 64M -- "$program" linear
    ms=$(($(now) - from))
}
neighbour
neighbour
is "$rc" 0 "a program alone on its lease"
before=$ms

touch "$T/hostile/on"
start tenant "$rgpu" run -p 0.3 -m 64M -- "$program" linear
ok "a tenant has his worker under control" wait_for 30 test -s "$T/hostile/ready"
is "$(cat "$T/hostile/ready")" 0 "... who may open no file that others use, too" ||
    diag "$(grep opened "$T/gpu1.log")"
# The lease's account has one size, and what has not is memory that counts as the tenant's own.
is "$(grep -c 'rgpu memory' "$T/hostile/ready.grown")" 0 \
    "... and cannot change the size of what the lease's workers count in" ||
    diag "$(cat "$T/hostile/ready.grown")"
is "$(grep 'on a disk' "$T/hostile/ready.grown")" "" "... and has nothing that lies on a disk"
for round in 1 2; do
    neighbour
    is "$rc" 0 "a neighbour gets its memory, context and module" || diag "$out $err"
    ok "... in $ms ms, alone $before ms" test "$ms" -le $((2 * before + 1000))
done
from=$(now)
for path in /v1/health /v1/leases /v1/health; do api GET $path; done
ok "rgpud answers in $((($(now) - from) / 3)) ms" test "$code" = 200 -a $(($(now) - from)) -le 1500
ok "the tenant's worker still has its locks" test -s "$T/hostile/ready" -a -e \
    "/proc/$(pgrep -f "$root/t/lib/holds_all.py" -n)"
done_testing
