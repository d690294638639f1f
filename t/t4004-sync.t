#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Slurm follows the pool: jobs pend while a server is drained, down or lent to others, and run when
# it is back.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"

reserved() { scontrol -o show lic | sed -n 's/.*LicenseName=rgpu .* Reserved=\([0-9]*\) .*/\1/p'; }
sync() { try 30 rgpu slurm sync; }
pends() { [ "$(job_state "$1") $(job_reason "$1")" = "PENDING Licenses" ]; }

sync
is "$rc $(reserved)" "0 0" "a whole pool: nothing is reserved"
like "$out" '400 of 400 licences can be sold now$' "... and sync says so"
is "$(scontrol -o show reservation)" "No reservations in the system" "... there is no reservation"

# --- drained

rgpu drain gpu2 --reason 'new fans'
sync
is "$rc $(reserved)" "0 200" "a drained server: its licences are reserved"
like "$out" '200 of 400 licences can be sold now, reservation rgpu_missing holds the rest' \
    "... and sync says so"
like "$(scontrol -o show reservation rgpu_missing)" 'NodeCnt=0 .*Licenses=rgpu:200 State=ACTIVE' \
    "... in a reservation of no node"
try 30 rgpu slurm sync --json
figures='[j["gpus"], j["licences_wanted"], j["licences_total"], j["licences_missing"]]'
is "$rc $(json_value "str($figures) + str(j['servers']) + str(j['silent'])" <<< "$out")" \
    "0 [4, 400, 400, 200]['gpu1', 'gpu2'][]" "--json says it in numbers, and nothing else"
submitted -N 2 --gres=rgpu:2 --wrap true; full=$job
ok "a job that needs all pends, with reason Licenses" wait_for 20 pends "$full"
scancel "$full"  # of those that pend, Slurm gives a reason to the first only
submitted --gres=rgpu:2 --wrap "$(until_file "$T/first")"; first=$job
ok "one that needs half runs" wait_for 20 is_state "$first" RUNNING
submitted --gres=rgpu:1 --wrap true; more=$job
ok "one more pends, instead of waiting in its prolog" wait_for 20 pends "$more"
submitted -N 2 --gres=rgpu:2 --wrap true; full=$job
sync
is "$(reserved)" 200 "what a job holds does not change what is missing"
rgpu resume gpu2
sync
is "$rc $(reserved)" "0 0" "resumed: nothing is reserved"
is "$(scontrol -o show reservation)" "No reservations in the system" \
    "... and the reservation is gone"
ok "the small job runs" wait_for 20 is_state "$more" COMPLETED
touch "$T/first"
ok "... and the job that needs all" wait_for 20 is_state "$full" COMPLETED

# --- drained under a job

submitted -N 2 --gres=rgpu:2 --wrap "$(until_file "$T/both")"; both=$job
ok "a job holds all of the pool" wait_for 20 is_state "$both" RUNNING
rgpu drain gpu2
sync
is "$(reserved)" 0 "drained under a job: the job's licences are not reserved, too"
touch "$T/both"
# Its leases and its licences: where gpu2 is silent, sync takes licences that are still used for
# those of a job there.
given_back() { [ "$(held) $(sold)" = "0 0" ]; }
ok "it ends" wait_for 20 given_back
rgpu resume gpu2

# --- down

kill -9 "$(cat "$cluster/pid/rgpud.gpu2")"
sync
is "$rc $(reserved)" "123 200" \
    "a server that is down: its licences are reserved, and the status tells"
# Its connection is refused, or reset where it is still about to end.
like "$err" 'server gpu2 .*[Cc]onnect' "... which server"
submitted -N 2 --gres=rgpu:2 --wrap true; full=$job
ok "a job that needs it pends, and is not refused" wait_for 20 pends "$full"
RGPU_MINICLUSTER=$cluster setsid "$build/sbin/rgpud" --config \
    "$cluster/etc/gpu2.conf" > "$cluster/log/rgpud.gpu2" 2>&1 < /dev/null &
echo $! > "$cluster/pid/rgpud.gpu2"
both_synced() { rgpu slurm sync --quiet; }
ok "it is back" wait_for 20 both_synced
is "$(reserved)" 0 "... and nothing is reserved"
ok "... and the job runs" wait_for 20 is_state "$full" COMPLETED

# --- lent to others

start other rgpu run -n 1 -- sh -c "$(until_file "$T/other")"
is_lent() { rgpu leases | grep -q 'pid '; }
wait_for 10 is_lent
sync
is "$(reserved)" 100 "what is leased outside Slurm is reserved"
touch "$T/other"
ok "until it is given back" wait_for 10 all_free
sync
is "$(reserved)" 0 "... then it is sold again"

# --- when Slurm cannot be asked

mkdir "$T/bin"
script='#!/bin/sh\necho "slurm_load_licenses error: Unable to contact slurm controller" >&2; '
script+='exit 1\n'
printf '%b' "$script" > "$T/bin/scontrol"
chmod 755 "$T/bin/scontrol"
rm "$cluster/run/pool.snapshot"
try 30 env PATH="$T/bin:$PATH" rgpu slurm sync
like "$rc $err" '^1 .*the reservation is not kept: scontrol: .*Unable to contact slurm controller' \
    "no slurmctld: told"
ok "... and the snapshot is written" test -s "$cluster/run/pool.snapshot"
try 30 env PATH="$T/bin:$PATH" rgpu slurm sync --snapshot-only
is "$rc" 0 "--snapshot-only asks Slurm nothing"
sed 's/^\[slurm\]/&\nreservation = ""/' "$RGPU_CONF" > "$T/none.conf"
try 30 env PATH="$T/bin:$PATH" rgpu --config "$T/none.conf" slurm sync
is "$rc" 0 "reservation = \"\": none is kept"
sed 's/^Licenses=.*/Licenses=rgpu:300/' "$cluster/etc/rgpu-slurm.conf" > "$T/less" &&
    cp "$T/less" "$cluster/etc/rgpu-slurm.conf"
scontrol reconfigure
sells_less() { scontrol -o show lic | grep -q 'Total=300 '; }
wait_for 20 sells_less
sync
like "$rc $err" \
    '^0 .*the pool has 4 GPUs, and Slurm sells less \(rgpu:300\); set Licenses=rgpu:400' \
    "more GPUs than Licenses= has: told"

# --- the timer

like "$(cat "$root/etc/rgpu-sync.timer")" 'OnUnitActiveSec=1min' "the timer runs each minute"
like "$(cat "$root/etc/rgpu-sync.timer")" 'AccuracySec=1s' "... and not a minute later"
like "$(cat "$root/etc/rgpu-sync.service.in")" \
    'ExecStart=@bindir@/rgpu --config @rgpu_conf@ slurm sync --quiet' "... sync"
done_testing
