#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Beside the view of GPUs that a task has: job_container/tmpfs, which gives each job a mount
# namespace of its own with a private /tmp and /dev/shm.
export TMPDIR=/var/tmp  # Slurm keeps no private folders below /tmp, and jobs see nothing there
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
needs_device_view
compgen -G '/usr/lib/*/slurm-wlm/job_container_tmpfs.so' > /dev/null ||
    skip_all "no job_container/tmpfs"
cluster_up
unset RGPU_LEASE LD_LIBRARY_PATH

mkdir -m 755 "$T/private"
printf 'AutoBasePath=true\nBasePath=%s/private/%%n\n' "$T" > "$cluster/etc/job_container.conf"
echo JobContainerType=job_container/tmpfs >> "$cluster/etc/slurm.conf"
sed -i 's/^PrologFlags=.*/&,Contain/' "$cluster"/etc/{rgpu-slurm,slurm}.conf
for name in slurmd.cn1 slurmd.cn2 slurmctld; do crash $name; done
daemon slurmctld 2> "$T/daemons.log"
for node in cn1 cn2; do daemon slurmd -N $node 2>> "$T/daemons.log"; done
idle() { [ "$(sinfo -h -o %T)" = idle ]; }
ok "Slurm is up with job_container/tmpfs" wait_for 30 idle || diag "$(cat "$T/daemons.log")"

try 60 srun --gres=rgpu:2 sh -c 'touch /tmp/mine; ls /tmp; ls /dev | grep -c "^nvidia[0-9]"'
is "$rc:$out" "0:mine
2" "a task has a /tmp of its own, and the device files" || diag "$err"
ok "the node has neither" test ! -e /tmp/mine -a ! -e /dev/nvidia0
try 60 srun --gres=rgpu:2 nvidia-smi -L
is "$rc:$(grep -c '^GPU [01]: ' <<< "$out")" 0:2 "nvidia-smi lists both GPUs" || diag "$out$err"
try 60 srun --gres=rgpu:1 "$build/cuda/vector_add-static"
is "$rc" 0 "a CUDA program computes" || diag "$out$err"
ok "everything is free" wait_for 10 all_free
done_testing
