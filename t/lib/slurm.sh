# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the t4*.t tests add to tap.sh:  . "$(dirname "$0")/lib/slurm.sh"   (after tap.sh)
#
#   cluster_up [ARGS...]  a minicluster of the test's own (ARGS: as for minicluster up), up within
#   seconds, down with the test;
#                         Slurm's commands and rgpu use it from then on. Skips the whole test where
#                         there is no Slurm.
#   all_free              true when every GPU of the pool is free and no worker runs
#   workers               the pids of this cluster's workers
#   submitted ARGS...     sbatch ARGS..., without output file unless -o is among them; sets $job
#   job_state ID          PENDING, RUNNING, COMPLETED, ...; the last known one
#   job_reason ID         why it is pending
#   is_state ID STATE     for wait_for
#   stepds ID             the pids of the slurmstepds of a job
#   held, sold            hundredths of GPUs that leases of jobs hold, and that Slurm counts as used
#                         licences
#   agree                 true when both are the same, for wait_for
#   end_jobs              cancels all, and waits until the pool is free
#   until_file FILE       the text of a script that ends when FILE is there
#   daemon COMMAND...     runs Slurm's daemon as the minicluster does
#   crash NAME            kill -9 of slurmctld, slurmd.cn1, rgpud.gpu1 ..., and waits until it is
#                         gone
#   start_rgpud NAME      starts gpu1 or gpu2 again
#   server_of ID          the server of a job's first lease
#   restarts ID           how often Slurm has started a job again
#   start_now ID          a requeued job is not kept for two minutes
#   note_of ID            its AdminComment
#   slurm_is VERSION      true where Slurm is of this version (23.02) or newer: what it does
#                         differently is asked by this
#
# Each test has its own cluster, since one is up in a second: tests cannot disturb each other.

# Neither rgpud nor workers are root, and both must reach what stands here.
chmod 755 "$T"
cluster=$T/mc
export O=$build

minicluster() { "$root/contrib/minicluster" --dir "$cluster" "$@"; }

cluster_up()
{
    local file
    for file in slurmctld slurmd munged; do
        PATH=$PATH:/usr/sbin command -v $file > /dev/null || skip_all "$file is not installed"
    done
    minicluster up "$@" > "$T/up.log" 2>&1 ||
        { diag "$(cat "$T/up.log")"; bail "the minicluster did not come up"; }
    cleanup_do cluster_down
    eval "$(minicluster env)"
}

cluster_down()
{
    [ "$tap_failed" = 0 ] ||
        diag "$(grep -hE 'warn|error|lost' "$cluster"/log/rgpud.* | tail -n 20)"
    minicluster down > "$T/down.log" 2>&1 || diag "$(cat "$T/down.log")"
}

workers()
{
    local pid
    for pid in $(pgrep -x rgpu-worker); do
        grep -qsaF "RGPU_SOFTGPU_HOST=$cluster/" "/proc/$pid/environ" && echo "$pid"
    done
}

all_free()
{
    local last
    last=$(rgpu list | tail -n 1)
    [[ $last =~ ^([0-9]+)\ of\ ([0-9]+)\ GPUs\ free$ ]] &&
        [ "${BASH_REMATCH[1]}" = "${BASH_REMATCH[2]}" ] ||
        { rgpu list; return 1; }
    [ -z "$(workers)" ] || { echo "workers: $(workers)"; return 1; }
}

slurm_is()
{
    local ours
    ours=$(sinfo -V | sed 's/^[^0-9]*//')
    [ "$(printf '%s\n' "$1" "$ours" | sort -V | head -n 1)" = "$1" ]
}

submitted()
{
    local output=(-o /dev/null)
    case " $* " in *' -o '*) output=() ;; esac
    job=$(sbatch --parsable "${output[@]}" "$@" 2> "$T/sbatch.err") ||
        { diag "$(cat "$T/sbatch.err")"; job=; return 1; }
}

job_state() { scontrol show job "$1" 2>/dev/null | sed -n 's/^ *JobState=\([A-Z_]*\) .*/\1/p'; }
job_reason() { squeue -h -j "$1" -o %r 2>/dev/null; }
is_state() { [ "$(job_state "$1")" = "$2" ] || { scontrol show job "$1"; return 1; }; }

stepds()
{
    pgrep -f "^slurmstepd: \[$1\." | while read -r pid; do
        readlink "/proc/$pid"/fd/* 2>/dev/null | grep -qF "$cluster/" && echo "$pid"
    done
}

# For jobs that are to share one: their prologs ask at the same time, and neither sees the other's
# lease.
# Skips the script where a task's view of GPUs cannot be made, or the machine has GPUs of its own.
needs_device_view()
{
    [ -e "$interpose/libnvidia-ml.so.1" ] ||
        skip_all "no libnvidia-ml.so.1: no nvml.h (contrib/install-deps-debian.sh)"
    [ "$(id -u)" = 0 ] && unshare -m true 2> /dev/null || skip_all "no mount namespaces here"
    compgen -G '/dev/nvidia*' > /dev/null && skip_all "this machine has NVIDIA's device files"
}

first_gpu() { rgpu list --json | json_value 'j["servers"][0]["gpus"][0]["uuid"]'; }

held()
{
    rgpu list --json | json_value 'sum(max(g["share"], 1) for s in j["servers"]
        for l in s["leases"] if l["owner"].get("job") for g in l["gpus"])'
}
sold() { scontrol -o show lic | sed -n 's/.*LicenseName=rgpu .* Used=\([0-9]*\) .*/\1/p'; }
agree() { [ "$(held)" = "$(sold)" ] ||
    { echo "leases hold $(held), licences in use $(sold)"; return 1; }; }

# A command for sh -c that waits for a file.
until_file() { printf 'while [ ! -e %q ]; do sleep 0.1; done' "$1"; }
daemon()
{
    env PATH="$PATH:/usr/sbin" RGPU_MINICLUSTER="$cluster" \
        RGPU_SNAPSHOT="$cluster/run/pool.snapshot" "$@"
}

crash()
{
    local pid
    pid=$(cat "$cluster/pid/$1")
    kill -9 "$pid"
    wait_for 20 tap_gone "$pid"
}

start_rgpud()
{
    RGPU_MINICLUSTER=$cluster setsid "$build/sbin/rgpud" --config \
        "$cluster/etc/$1.conf" >> "$cluster/log/rgpud.$1" 2>&1 < /dev/null &
    echo $! > "$cluster/pid/rgpud.$1"
}

server_of() { rgpu list | sed -n "s/^\(gpu[12]\) .*job $1 on.*/\1/p" | head -n 1; }

restarts() { scontrol show job "$1" | sed -n 's/.* Restarts=\([0-9]*\) .*/\1/p'; }
# slurmd runs no prolog for a job that comes back while its last credential is good.
start_now() { scontrol update JobId="$1" StartTime=now+15; }
note_of() { scontrol show job "$1" | sed -n 's/^ *AdminComment=\(.*[^ ]\) *$/\1/p'; }

end_jobs()
{
    squeue -h -o %i | xargs -r scancel 2>/dev/null
    wait_for 20 all_free
}
