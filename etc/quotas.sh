#!/bin/sh
# Makes, or changes, accounts with a guaranteed share of the pool: quotas.sh ACCOUNT=GPUS...   (as an administrator of slurmdbd)
#
# Each account gets a QOS of its name, in which its jobs may hold so many GPUs together, which is the default of its users and may
# requeue jobs of the QOS spare; and spare, for whatever is over. GPUS may be a fraction. The guarantees must not sum up to more than the pool.
# Behind a comma, how many of them may be of a type at once, where Slurm sells such licences: physics=12,a100=4
set -eu

if [ $# = 0 ] || [ "$1" = --help ]; then
    echo "usage: quotas.sh ACCOUNT=GPUS[,TYPE=GPUS...]...   like: quotas.sh physics=12,a100=4 biology=3.5"
    exit $([ $# = 0 ] && echo 2 || echo 0)
fi

# sacctmgr ends with 1 where nothing had to be changed.
there() { [ -n "$(sacctmgr -n -P show "$@")" ]; }

there qos where name=spare || sacctmgr -i -Q add qos spare
sacctmgr -i -Q modify qos spare set priority=0 || true
hundredths() { echo "$1" | awk '/^[0-9]+(\.[0-9]+)?$/ {printf "%d", $1 * 100 + 0.5}'; }
for all; do
    pair=${all%%,*} limits=
    account=${pair%%=*}
    licences=$(hundredths "${pair#*=}")
    for typed in $(echo "${all#"$pair"}" | tr , ' '); do
        of_type=$(hundredths "${typed#*=}")
        [ -n "$of_type" ] || { echo "quotas.sh: $typed is not TYPE=GPUS" >&2; exit 2; }
        limits=$limits,license/rgpu_${typed%%=*}=$of_type
    done
    if [ -z "$account" ] || [ -z "$licences" ] || [ "$account" = "$pair" ]; then
        echo "quotas.sh: $pair is not ACCOUNT=GPUS" >&2
        exit 2
    fi
    there qos where name="$account" || sacctmgr -i -Q add qos "$account"
    sacctmgr -i -Q modify qos "$account" set priority=100 preempt=spare grptres=license/rgpu="$licences$limits" || true
    there account where name="$account" || sacctmgr -i -Q add account "$account"
    # Its fair share is as large as its guarantee.
    sacctmgr -i -Q modify account "$account" set qos="$account",spare defaultqos="$account" fairshare="$licences" || true
    echo "$account: $(sacctmgr -n -P show qos where name="$account" format=grptres,preempt)"
done
