#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The minicluster: up in seconds, several at once, gone without a trace, and plain about what fails.
# shellcheck disable=SC2086 # $mc is a command with its options
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"

mc="$root/contrib/minicluster --dir $cluster"
started=${EPOCHREALTIME/./}
cluster_up
took=$(((${EPOCHREALTIME/./} - started) / 1000))
note "up in $took ms"
ok "it is up in less than ten seconds" [ $took -lt 10000 ]
try 10 $mc status
is $rc 0 "status says that all of it runs"
like "$out" 'slurmd.cn2 +runs' "status names the daemons"
like "$out" 'of 4 GPUs free|of [0-9]+ GPUs free' "status shows the pool"
is "$(sinfo -h -N -o '%N %T' | xargs)" "cn1 idle cn2 idle" "nodes cn1 and cn2 are idle"
ok "both servers answer with their GPUs" all_free
ok "an ordinary job runs" srun true
try 20 $mc run sinfo -h
is $rc 0 "run gives a command the cluster's environment"
ok "nothing of /etc is used" [ "$(scontrol show config | sed -n 's/^SLURM_CONF *= //p')" = \
    "$cluster/etc/slurm.conf" ]

try 10 $mc up
is $rc 1 "up says no where one is up"
like "$err" 'runs already' "and says why"

second=$T/mc2
try 20 "$root/contrib/minicluster" up --dir "$second"
second_down() { "$root/contrib/minicluster" down --dir "$second" > "$T/down2.log" 2>&1; }
cleanup_do second_down
is $rc 0 "a second one comes up beside it"
ok "the first still takes jobs" srun true
ok "the second takes jobs" "$root/contrib/minicluster" run --dir "$second" srun true
second_down

submitted --gres=rgpu:1 --wrap 'trap "" TERM; while :; do sleep 1; done'
ok "a job that ignores SIGTERM runs" wait_for 20 is_state "$job" RUNNING
try 20 $mc down
is $rc 0 "down ends it, the job included"
unset SLURM_CONF RGPU_CONF
# Everything that has the cluster's directory in its command line or its environment.
left()
{
    local p
    for p in $(grep -lsaF "$cluster/" /proc/[0-9]*/environ /proc/[0-9]*/cmdline | cut -d/ -f3); do
        [ "$p" = $$ ] || [ "$p" = "$BASHPID" ] || { tr '\0' ' ' < "/proc/$p/cmdline"; } 2> /dev/null
    done
}
gone() { [ -z "$(left)" ] || { left; return 1; }; }
ok "no daemon, task or worker is left" wait_for 3 gone
try 10 $mc status
is $rc 1 "status then says that it does not run"

# A build whose server cannot start: a copy of the build tree's layout with another rgpud.
mkdir "$T/b" && ln -s "$build"/{bin,lib,libexec} "$T/b/" && mkdir "$T/b/sbin"
printf '#!/bin/sh\necho "no luck today" >&2\nexit 1\n' > "$T/b/sbin/rgpud"
chmod +x "$T/b/sbin/rgpud"
O=$T/b try 30 "$root/contrib/minicluster" up --dir "$T/mc3"
is $rc 1 "a server that does not start fails the whole"
like "$err" 'rgpud gpu1' "the message names it"
like "$err" 'no luck today' "and shows the end of its log"
rm "$T/b/sbin/rgpud"
O=$T/b try 10 "$root/contrib/minicluster" up --dir "$T/mc3"
like "$err" 'sbin/rgpud is missing; run make' "what was not built is named, with the cure"
done_testing
