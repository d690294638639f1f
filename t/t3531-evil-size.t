#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Hostile: a worker in its tenant's hands tries to write the word that says how much memory its
# lease may have. It gets nowhere, and the cap holds, also after it was changed.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu
program=$build/cuda/memory_cap-static
[ -x "$program" ] || skip_all "$program is not built; run make cuda"
mib=$((1 << 20))

cat > "$T/worker" <<END
#!/bin/sh
[ -z "\$1" ] && [ -n "\$RGPU_WORKER_BOARDS" ] &&
    exec python3 "$root/t/lib/evil_size.py" "$build/libexec/rgpu-worker"
exec "$build/libexec/rgpu-worker" "\$@"
END
chmod 755 "$T/worker"
rgpud gpu1 'softgpu_devices = 1' 'softgpu_memory = "256M"' "worker = \"$T/worker\""
clients "gpu1=$control"

try 20 "$rgpu" request --wait 10s -p 0.5 -m 64M -o "$T/lease"
is "$rc" 0 "the evil tenant has its lease" || diag "$err"
lease=$(json_value 'j["servers"][0]["lease"]' < "$T/lease")
run() { RGPU_LEASE=$T/lease LD_LIBRARY_PATH=$interpose try 60 "$program" linear; }
run
is "$rc" 0 "its program runs" || diag "$out $err"
got=${out##* }
ok "... and gets 64 MiB at most: $((got / mib))" [ "$got" -le $((64 * mib)) ]
try 10 "$rgpu" resize "$lease" --mem 48M
is "$rc" 0 "its lease becomes smaller" || diag "$err"
run
got=${out##* }
ok "the next program gets 48 MiB at most: $((got / mib))" [ "$rc" = 0 -a "$got" -le $((48 * mib)) ]
ok "its workers have tried" [ "$(logged gpu1 'evil_size: 1 pages')" -ge 1 ]
is "$(logged gpu1 'evil_size: .*got through: [^n]')" 0 "... all in vain" ||
    diag "$(grep evil_size "$T/gpu1.log")"
done_testing
