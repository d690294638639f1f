#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Licences by type: a job that waits for one type of GPU waits in Slurm, with a reason, and keeps no
# job of another type from starting.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up --types a100,h100
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"

licences() { squeue -h -j "${1:-$job}" -o %W; }
runs() { is_state "$1" RUNNING; }
has_licences() { [ "$(licences "$1")" = "$2" ] || { licences "$1"; return 1; }; }
reserved()
{
    scontrol -o show reservation |
        sed -n 's/.*ReservationName=rgpu_missing .* Licenses=\([^ ]*\) .*/\1/p'
}
waits_for_licences() { [ "$(job_state "$1") $(job_reason "$1")" = "PENDING Licenses" ] ||
    { scontrol show job "$1"; return 1; }; }

submitted -H --gres=rgpu:a100:2 --wrap true
is "$(licences)" rgpu:200,rgpu_a100:200 "a typed job takes the sum and those of its type"
submitted -H --gres=rgpu:1 --rgpu-server=gpu2 --wrap true
is "$(licences)" rgpu:100,rgpu_h100:100 "so does one whose filters leave one type only"
submitted -H --gres=rgpu:2 --wrap true
is "$(licences)" rgpu:200 "a job that any type would do takes the sum alone"
submitted -H --gres=rgpu:a100:1 --licenses=rgpu_h100:200,rgpu_a100:1 --wrap true
is "$(licences)" rgpu:100,rgpu_a100:100 "forged counts of types are replaced"
scontrol update job="$job" licenses=rgpu_h100:100 2> /dev/null
is "$(licences)" rgpu:100,rgpu_a100:100 "... and an update cannot change the type"
ok "fewer GPUs are fewer of both" scontrol update job="$job" gres=rgpu:a100:2
is "$(licences)" rgpu:200,rgpu_a100:200 "... and more, more"
scancel -u "$(id -un)"

# --- the case that types are for

submitted --gres=rgpu:a100:2 --wrap "$(until_file "$T/end1")"; one=$job
wait_for 30 runs "$one"
submitted --gres=rgpu:a100:2 --wrap true; two=$job
submitted --gres=rgpu:h100:1 --wrap "$(until_file "$T/end3")"; three=$job
ok "a second job of a type that is in use pends with reason Licenses" wait_for 20 \
    waits_for_licences "$two"
ok "... and a job of another type runs meanwhile" wait_for 30 runs "$three"
rgpu slurm sync > "$T/sync" 2>&1
try 30 rgpu slurm check
is "$rc" 0 "Slurm and the pool agree" || diag "$out"
touch "$T/end1"
ok "the second one runs when the first has ended" wait_for 60 is_state "$two" COMPLETED
touch "$T/end3"
wait_for 20 all_free
try 20 srun --gres=rgpu:A100:1 true
like "$rc $err" '^1 .*rgpu:A100: Slurm knows this type as a100; ask with --gres=rgpu:a100:1' \
    "a type that is spelt in another way than slurm.conf does is answered"

# --- a job that any type would do

submitted --gres=rgpu:a100:1 --wrap "$(until_file "$T/end4")"; four=$job
wait_for 30 runs "$four"
submitted --gres=rgpu:1 --wrap "$(until_file "$T/end5")"; five=$job
wait_for 30 runs "$five"
is "$(server_of "$five")" gpu2 "a job that any type would do gets the type with most free"
ok "... and its licences are of that type, once it has its GPU" wait_for 10 has_licences "$five" \
    rgpu:100,rgpu_h100:100
submitted --gres=rgpu:h100:2 --wrap true; six=$job
ok "... so that who wants all of these waits in Slurm" wait_for 20 waits_for_licences "$six"
scancel "$six"
try 30 rgpu slurm check
is "$rc" 0 "Slurm and the pool still agree" || diag "$out"
scontrol requeue "$five"
back() { [ "$(job_state "$five")" = PENDING ]; }
wait_for 40 back
ok "requeued, it may have any type again" wait_for 20 has_licences "$five" rgpu:100
used() { scontrol -o show lic | sed -n "s/.*LicenseName=$1 .* Used=\([0-9]*\) .*/\1/p"; }
is "$(used rgpu) $(used rgpu_a100) $(used rgpu_h100)" "100 100 0" \
    "... and those of the type that it had are given back, too"
scancel "$five"
touch "$T/end4"
wait_for 20 all_free

# --- what is missing

rgpu drain gpu2 --reason 'new fans' > /dev/null
rgpu slurm sync > "$T/sync" 2>&1
is "$(reserved)" rgpu:200,rgpu_h100:200 "what is drained is reserved of the sum and of its type"
submitted --gres=rgpu:h100:1 --wrap true
ok "... so that who wants it pends" wait_for 20 waits_for_licences "$job"
scancel "$job"
rgpu resume gpu2 > /dev/null
rgpu slurm sync > "$T/sync" 2>&1
is "$(reserved)" "" "nothing is missing, nothing is reserved"
start outside rgpu run -n 1 --server gpu1 -- sh -c "$(until_file "$T/out")"
taken() { rgpu list | grep -q '^gpu1 .* 0%'; }
wait_for 20 taken
rgpu slurm sync > "$T/sync" 2>&1
is "$(reserved)" rgpu:100,rgpu_a100:100 "so is what is leased outside Slurm"
touch "$T/out"
done_testing
