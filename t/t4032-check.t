#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rgpu slurm check: every disagreement between Slurm and the pool, made for real, is found, and the
# cure that it names cures.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"

check() { try 60 rgpu slurm check "$@"; }
agrees() { check; is "$rc:$(tail -n 1 <<< "$out")" "0:$1: all agree" "$2" || diag "$out$err"; }
all_agree() { rgpu slurm check; }

agrees "0 jobs with GPUs of the pool, 0 leases" "an idle cluster agrees"
submitted -N 2 --gres=rgpu:1 --wrap "$(until_file "$T/go")"; both=$job
ok "a job runs" wait_for 30 is_state "$both" RUNNING
agrees "1 job with GPUs of the pool, 2 leases" "so does one with a job"
check --json
is "$(json_value \
    '[j[k] for k in ("jobs", "leases", "silent_servers", "disagreements")]' <<< "$out")" \
    "1 2 0 []" "--json says the same"

# Servers show other users no leases but their own.
for command in check sync; do
    try 60 setpriv --reuid=65534 --regid=65534 --clear-groups "$build/bin/rgpu" slurm $command
    like "$rc $err" '^1 rgpu: the servers show you no leases but your own; run this as root' \
        "rgpu slurm $command tells an ordinary user nothing that is false"
done

# --- a job without lease

rgpu release --job "$both" > "$T/release"
check
is $rc 3 "a job whose leases are gone: exit status 3"
sentence="job without lease: job $both: it runs with licences rgpu:200, and no server has a lease "
sentence+="of it"
like "$out" "$sentence" "it is named"
like "$out" "    its GPUs are gone: scontrol requeue $both, or scancel $both" "with the cure"
check --json
is "$(json_value 'list({d["check"] for d in j["disagreements"]})' <<< "$out")" "job without lease" \
    "in JSON, too"
ok "the cure works" scancel "$both"
ok "then all agree" wait_for 30 all_agree

# --- a part of a job's leases

submitted -N 2 --gres=rgpu:1 --wrap "$(until_file "$T/go")"; both=$job
wait_for 30 is_state "$both" RUNNING
rgpu release --job "$both" --node cn2 > "$T/release"
check
sentence="^3 licences of a job: job $both: it has licences rgpu:200, and its leases hold 100 "
sentence+="hundredths"
like "$rc $out" "$sentence" "a job with half of its leases"
scancel "$both"
ok "it ends" wait_for 30 all_agree

# --- leases without a job

# What an epilog leaves behind that does not run.
mv "$cluster/libexec/rgpu/epilog-slurmctld" "$T/epilog"
printf '#!/bin/sh\nexit 0\n' > "$cluster/libexec/rgpu/epilog-slurmctld"
chmod 755 "$cluster/libexec/rgpu/epilog-slurmctld"
try 30 srun --gres=rgpu:1 true
lost=$(rgpu leases --json | grep -oE '"job": "[0-9]+"' | grep -oE '[0-9]+')
ok "a lease outlives its job" [ -n "$lost" ]
is_gone() { [ -z "$(squeue -h -j "$lost" 2> /dev/null)" ]; }
wait_for 30 is_gone
rgpu slurm sync > "$T/sync"
check
sentence="^3 .*lease without job: job $lost: gpu[12] has a lease of it \(root, node cn[12]\), and "
sentence+="Slurm runs no such job"
like "$rc $out" "$sentence" "it is found"
mv "$T/epilog" "$cluster/libexec/rgpu/epilog-slurmctld"
like "$out" "    rgpu release --job $lost;" "with the cure"
ok "which works" rgpu release --job "$lost"
rgpu slurm sync > "$T/sync"
agrees "0 jobs with GPUs of the pool, 0 leases" "then all agree"

# --- licences, and what is kept of them

rgpu drain gpu2 --reason test
check
like "$rc $out" \
    '^3 .*reservation rgpu_missing: it holds 0 licences of rgpu, and 200 cannot be given now' \
    "a drained server before rgpu slurm sync"
like "$out" '    rgpu slurm sync' "the cure is sync"
rgpu slurm sync > "$T/sync"
agrees "0 jobs with GPUs of the pool, 0 leases" "after it all agree"
rgpu resume gpu2
rgpu slurm sync > "$T/sync"
mv "$cluster/run/pool.snapshot" "$T/snapshot"
check
like "$rc $out" '^3 .*snapshot: the snapshot: it cannot be read' "no snapshot"
sed 's/^total.*/total 2 3/; s/^server gpu2 2/server gpu2 1/; /^model/d' \
    "$T/snapshot" > "$cluster/run/pool.snapshot"
check
like "$rc $out" '^3 .*snapshot: server gpu2: it has 2 GPUs, and the snapshot says 1' \
    "a snapshot of another pool"
rgpu slurm sync > "$T/sync"
ok "sync cures both" all_agree

# --- slurm.conf

cp "$cluster/etc/rgpu-slurm.conf" "$T/right.conf"
program='s/^Licenses=.*/Licenses=rgpu:300/; s/^PrologSlurmctld=/#&/; s/^Epilog=/#&/; '
program+='s/^PrologFlags=.*/#&/'
sed "$program" "$T/right.conf" > "$cluster/etc/rgpu-slurm.conf"
scontrol reconfigure
sells() { scontrol -o show lic | grep -q "Total=$1 "; }
wait_for 20 sells 300
check
like "$rc $out" \
    '^3 .*licence count: licence rgpu: Slurm sells 300, and the pool has 400 hundredths' \
    "fewer licences than GPUs"
like "$out" '    set Licenses=rgpu:400 in slurm.conf' "with the line"
like "$out" 'slurm.conf: PrologSlurmctld: it is not set' "no PrologSlurmctld"
like "$out" 'slurm.conf: Epilog: it is not set' "no Epilog"
like "$out" 'slurm.conf: PrologFlags: it is not set' "no PrologFlags"
cp "$T/right.conf" "$cluster/etc/rgpu-slurm.conf"
scontrol reconfigure
wait_for 20 sells 400
ok "put right, all agree" wait_for 30 all_agree

# --- nodes that differ

scontrol update node=cn2 gres=rgpu:8
check
like "$rc $out" '^3 node cn[12]: it has Gres rgpu:(8|1K), and most have rgpu:(1K|8)' \
    "a node with another count of rgpu"
scontrol update node=cn2 gres=rgpu:1024
ok "the same on all, they agree" all_agree

# --- configuration that differs

cp "$cluster/libexec/rgpu/prolog" "$T/prolog"
sed 's/^\[client\]/&\nwait = "9m"/' "$cluster/etc/rgpu.conf" > "$T/other.conf"
cp "$cluster/etc/plugstack.conf.d/rgpu.conf" "$T/spank.conf"
on()
{
    try 60 srun -w "$1" --gres=rgpu:1 true
    is $rc 0 "a job on $1" || diag "$err"
    wait_for 30 all_free
    rgpu slurm sync > "$T/sync"
}
on cn1
on cn2
ok "nodes with the same configuration agree" wait_for 30 all_agree
sed -i "s|^exec|[ \$SLURMD_NODENAME = cn1 ] \|\| export RGPU_CONF=$T/other.conf\n&|" \
    "$cluster/libexec/rgpu/prolog"
on cn2
check
like "$rc $out" \
    '^3 .*configuration: node cn2: its rgpu.conf \(\[client\]\) differs from most machines.' \
    "a node with another rgpu.conf"
is "$(grep -c ^configuration: <<< "$out")" 1 "it alone"
like "$out" 'srun -w cn2 --gres=rgpu:1 true' "with the cure"
cp "$T/prolog" "$cluster/libexec/rgpu/prolog"
on cn2
ok "put right, and seen again, they agree" all_agree
sed -i 's/ libpath=[^ ]*/ libpath=\/other/' "$cluster/etc/plugstack.conf.d/rgpu.conf"
on cn1
cp "$T/spank.conf" "$cluster/etc/plugstack.conf.d/rgpu.conf"
check
like "$rc $out" '^3 .*configuration: node cn1: its plugstack.conf .* differs from most machines.' \
    "a node with another plugstack.conf"
on cn1
ok "put right, and seen again, they agree" all_agree

# --- a server that does not answer

kill -9 "$(cat "$cluster/pid/rgpud.gpu2")"
rgpu slurm sync > "$T/sync" 2>&1
check
is $rc 123 "a server that does not answer: exit status 123"
like "$out" '(^|
)server gpu2 \(' "and it is named"

# --- Slurm that does not answer

mkdir "$T/bin"
printf '#!/bin/sh\necho "Unable to contact slurm controller" >&2; exit 1\n' |
    tee "$T/bin/squeue" > "$T/bin/scontrol"
chmod 755 "$T/bin/"*
try 30 env PATH="$T/bin:$PATH" rgpu slurm check
like "$rc $err" '^1 .*squeue: Unable to contact slurm controller' "no slurmctld: exit status 1"
done_testing
