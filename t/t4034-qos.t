#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Slurm's QOS as weights: two jobs share a GPU, and what both leave over is divided by the weights
# that rgpud has for their QOS. With a slurmdbd, as QOS are kept there.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
for program in slurmdbd mariadbd; do
    PATH=$PATH:/usr/sbin command -v $program > /dev/null || skip_all "$program is not installed"
done
cluster_up --accounting --rgpud 'qos_weights = ["high=4", "low=0.5"]'

ok "a QOS" sacctmgr -i add qos high
ok "... and who may use it" sacctmgr -i modify user root set qos+=high
try 20 srun --qos=low --gres=rgpu:1 true
like "$rc $err" '^1 .*Invalid qos' "Slurm refuses a QOS that it does not know"

# Twenty hundredths each, sixty over: 4 * 20 to 1 * 20 of them. The second job's own word for its
# QOS counts for nothing.
gpu=$(first_gpu)
tenant()
{
    "$@" --gres=rgpu:1 --rgpu-uuid="$gpu" --rgpu-share=20-100 "$build/cuda/tenant-static" us=1000 \
        seconds=300
}
tenant srun --qos=high > "$T/high" 2>&1 &
tenant env SLURM_JOB_QOS=high srun > "$T/normal" 2>&1 &
look()
{
    rgpu top --json | python3 "$py/two_tenants.py"
}
both() { look > "$T/first"; [ -s "$T/first" ] || { rgpu top; false; }; }
ok "both run on one GPU" wait_for 60 both
read -ra first < "$T/first"
is "${first[*]:0:4}" "4.0 1.0 68 32" "what they weigh, and are due"
try 10 rgpu top --once
like "$out" '20-100% x4 +68\.0%' "rgpu top shows it"
# Of what both got in four seconds of the GPU's time.
later()
{
    look > "$T/now"
    python3 - "$T/first" "$T/now" <<'END'
import sys
first, now = (sum(map(float, open(f).read().split()[4:])) for f in sys.argv[1:3])
sys.exit(now - first < 4)
END
}
ok "... they get on" wait_for 60 later
read -ra now < "$T/now"
part=$(awk '{ a = $11 - $5; b = $12 - $6; printf "%.1f", 100 * a / (a + b) }' \
    <<< "${first[*]} ${now[*]}")
ok "... and are given: $part of 100, wanted 68 +- 8" awk \
    "BEGIN { exit !($part >= 60 && $part <= 76) }"
end_jobs
wait
done_testing
