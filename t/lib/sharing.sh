# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For tests of shared GPUs:  . "$(dirname "$0")/lib/sharing.sh"   (after tap.sh and rgpud.sh)
#
#   server [LINE...]              an rgpud with one software GPU, and clients for it
#   tenants SECONDS SPEC...       runs them all at the same time for so long; SPEC is "SHARE
#                                 KEY=VALUE...": the share as
#                                 for rgpu run, the rest as for t/cuda/tenant.cu. Waits for them;
#                                 their output is $out. The
#                                 first second does not count. What each got is $got (see got)
#   tenants_start, tenants_wait   the two halves of it
#   got EXPRESSION                evaluates Python with t1, t2 ... (share, low, high, stall) and
#                                 idle, overlap of $got
#   within EXPRESSION WANTED BY NAME   passes when the expression is so near; its value is in the
#                                      test's name
#   look FROM TO WINDOW [ARGS]    $got anew: of these seconds after the begin, with windows of so
#                                 many seconds; ARGS: see shares.py
#
# Software GPUs do not slice time: that kernels of two tenants never run at the same time is the
# token's doing. Kernels spin for a time by the clock, so that a slow machine only makes the gaps
# between them longer.

server()
{
    rgpud gpu1 'softgpu_devices = 1' 'softgpu_memory = "256M"' "$@"
    clients "gpu1=$control"
}

tenants_start()
{
    local spec i=0
    lasts=$1
    shift
    begin=$(python3 -c 'import time; print(round(time.time() + 1.5, 3))')
    tenant_pids=() tenant_files=()
    for spec in "$@"; do
        i=$((i + 1))
        # shellcheck disable=SC2086 # the words of SPEC
        set -- $spec
        "$build/bin/rgpu" run -p "$1" -m 32M -- "$build/cuda/tenant-static" "begin=$begin" \
            "seconds=$lasts" "file=$T/notes.$i" \
            "${@:2}" > "$T/tenant.$i" 2>&1 &
        tenant_pids+=($!)
        tenant_files+=("t$i=$T/notes.$i")
    done
    tap_started+=("${tenant_pids[@]}")
}

tenants_wait()
{
    local pid
    rc=0
    for pid in "${tenant_pids[@]}"; do wait "$pid" || rc=$?; done
    out=$(cat "$T"/tenant.*)
    look 1 "$lasts" 5
}

look()
{
    got=$(python3 "$root/t/lib/shares.py" --begin "$(python3 -c "print($begin + $1)")" --end \
        "$(python3 -c "print($begin + $2)")" \
        --window "$3" "${@:4}" "${tenant_files[@]}")
}

tenants() { tenants_start "$@"; tenants_wait; }

# What a program gets that has the GPU alone, as a factor: with short kernels, launching takes a
# part of the time on a software GPU, turns or not. Sets $alone.
alone()  # KEY=VALUE...
{
    tenants 6 "1 $*"
    alone=$(got "'%.4f' % (t1.share / 100)")
}

got()
{
    python3 "$py/tenant_expression.py" "$got" "$1"
}

# busy_tenants COUNT: so many have turns, and all of them are given time and launch.
busy_tenants()
{
    "$build/bin/rgpu" top --json | json_true 'len(t := [t for s in j["servers"] for g in s["gpus"]
        for t in g["tenants"]]) == int(a[0])
        and all(x["given_1s"] > 0.1 and x["launches_per_s"] > 1 for x in t)' "$1"
}

within()
{
    local value
    value=$(got "$1")
    ok "$4: $value, wanted $2 +- $3" python3 -c \
        "import sys; sys.exit(not abs($value - $2) <= $3)" || diag "$got"
}

at_most()  # EXPRESSION LIMIT NAME
{
    local value
    value=$(got "$1")
    ok "$3: $value, at most $2" awk "BEGIN { exit !($value <= $2) }" || diag "$got"
}

# The three of the table: each within so many points over all, and over any window of `look`.
three_shares()  # OVERALL IN_WINDOW NAME [FACTOR]
{
    local i=0 share
    for share in 25 35 40; do
        i=$((i + 1))
        within "${4:-1} * t$i.share" "$share" "$1" "$3: tenant of $share"
        within "${4:-1} * (t$i.low if $share - t$i.low > t$i.high - $share else t$i.high)" \
            "$share" "$2" "... in its worst 5 s"
    done
    at_most overlap 0.5 "... and no two run at the same time (percent)"
}
