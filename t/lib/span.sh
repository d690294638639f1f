# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For tests with two servers in one lease:  . "$(dirname "$0")/lib/span.sh"  (after tap.sh and
# rgpud.sh)
#
#   two_servers                starts gpu1 and gpu2 with two software GPUs each; sets $control_NAME
#                              and $pid_NAME
#   spanned FILE SERVER...     writes a lease file with both GPUs of each server
#   on COMMAND...              runs it with the lease $T/lease, as `try` does
#   good NAME                  passes when that exited 0

two_servers()
{
    local server
    for server in gpu1 gpu2; do
        # No worker but those of programs: the first addresses of their software GPUs are equal.
        rgpud "$server" 'softgpu_devices = 2' 'softgpu_memory = "512M"' 'warm = false'
        declare -g "control_$server=$control" "pid_$server=$pid"
    done
    clients "gpu1=$control_gpu1" "gpu2=$control_gpu2"
}

spanned()
{
    local file=$1 server
    shift
    for server in "$@"; do
        "$build/bin/rgpu" request -n 2 --server "$server" -o "$file.$server" > "$file.log" 2>&1 ||
            bail "no lease: $(cat "$file.log")"
    done
    python3 "$py/join_leases.py" "$file" "$@"
}

on() { try 100 env RGPU_LEASE="$T/lease" LD_LIBRARY_PATH="$interpose:$cuda_libs" "$@"; }
good() { is "$rc" 0 "$1" || diag "$out$err"; }
