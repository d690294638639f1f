#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
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

hundredths() { echo "$1" | awk '/^[0-9]+(\.[0-9]+)?$/ {printf "%d", $1 * 100 + 0.5}'; }

# Sets account, and the limits of its QOS. Ends with 2 where $1 is wrong.
read_quota()
{
    pair=${1%%,*}
    account=${pair%%=*}
    licences=$(hundredths "${pair#*=}")
    if [ -z "$account" ] || [ -z "$licences" ] || [ "$account" = "$pair" ]; then
        echo "quotas.sh: $pair is not ACCOUNT=GPUS" >&2
        exit 2
    fi
    limits=license/rgpu=$licences
    for typed in $(echo "${1#"$pair"}" | tr , ' '); do
        of_type=$(hundredths "${typed#*=}")
        [ -n "$of_type" ] || { echo "quotas.sh: $typed is not TYPE=GPUS" >&2; exit 2; }
        limits=$limits,license/rgpu_${typed%%=*}=$of_type
    done
}

# Nothing is changed before all is known to be right.
for all; do read_quota "$all"; done
there qos where name=spare || sacctmgr -i -Q add qos spare
sacctmgr -i -Q modify qos spare set priority=0 || true
for all; do
    read_quota "$all"
    there qos where name="$account" || sacctmgr -i -Q add qos "$account"
    sacctmgr -i -Q modify qos "$account" set priority=100 preempt=spare grptres="$limits" || true
    there account where name="$account" || sacctmgr -i -Q add account "$account"
    # Its fair share is as large as its guarantee.
    sacctmgr -i -Q modify account "$account" set qos="$account",spare defaultqos="$account" fairshare="$licences" || true
    echo "$account: $(sacctmgr -n -P show qos where name="$account" format=grptres,preempt)"
done

all=$(sacctmgr -n -P show qos format=grptres | tr , '\n' | awk -F= '$1 == "license/rgpu" {n += $2} END {print n + 0}')
pool=$(scontrol -o show lic rgpu 2> /dev/null | sed -n 's/.* Total=\([0-9]*\) .*/\1/p')
[ "$all" -le "${pool:-$all}" ] ||
    echo "quotas.sh: all quotas together are $all hundredths of a GPU, and Slurm sells $pool (Licenses=rgpu): they cannot all be kept" >&2
