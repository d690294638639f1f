#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Five programs of different kinds, run once nearby: what rgpu predict says that each takes over
# four links (lib/slow_link.py) is what it takes there, within 15 %.
#
#   RGPU_REPEAT=3   how often each program is recorded, and run over each link; the median counts
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/rgpud.sh"
rgpu=$build/bin/rgpu kinds=$build/cuda/kinds-static python=$build/venv/bin/python3
repeat=${RGPU_REPEAT:-3}
limit=0.15

rgpud gpu1 'softgpu_memory = "256M"'
clients "gpu1=$control"
cd "$T" || exit 1
unset RGPU_STATS
export RGPU_TRANSPORT=tcp XDG_CACHE_HOME=$T/cache
"$rgpu" request -t 1h -o near > /dev/null || bail "no lease"

programs="launches small large threads"
if [ -x "$python" ]; then
    programs+=" training"
else
    programs+=" overlap"
    note "no $python (make venv): overlap stands for training with tinygrad"
fi
# over LEASE PROGRAM: runs it; $seconds is what rgpu run took, less what it needs for itself.
over()
{
    local begin
    local -a command=("$kinds" "$2")
    [ "$2" != training ] ||
        command=("$python" "$root/contrib/examples/train.py" --gpus 1 --epochs 2)
    begin=$(date +%s.%N)
    try 300 "$rgpu" run --lease "$1" -- "${command[@]}"
    seconds=$(json "$(date +%s.%N) - $begin" '{}')
    [ "$2" = training ] || [ "$rc $out" = "0 ok" ] || bail "$2 over $1: $out$err"
}
median() { printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"; }

# NAME ROUND_TRIP_MS MB_PER_S
links="lan 2 125
metro 5 25
wan 10 12.5
far 20 6.25"

options=()
while read -r name trip rate; do
    # A link needs no processor: this one goes before what else is busy here, where it may.
    start "$name.link" nice -n -10 python3 "$root/t/lib/slow_link.py" near "$name" "$trip" "$rate"
    wait_for 20 test -s "$name" || bail "$name does not come up: $(cat "$T/$name.link.log")"
    try 120 "$rgpu" run --lease "$name" -- "$rgpu" bench --json
    is "$rc" 0 "$name is measured: $(json 'j["call"]["p50_us"]' "$out") us" || diag "$err"
    echo "$out" > "$name.json"
    options+=(--link "$name=$name.json")
done <<< "$links"

for program in $programs; do
    over near "$program"  # what is compiled is kept from here on
    predictions=()
    for ((i = 0; i < repeat; i++)); do
        rm -f record-*.json
        RGPU_STATS=$T/record-%p.json over near "$program"
        try 20 "$rgpu" predict --json "${options[@]}" record-*.json
        is "$rc" 0 "$program is predicted" || diag "$err"
        predictions+=("$out")
    done
    while read -r name trip rate; do
        near_runs=() runs=()
        for ((i = 0; i < repeat; i++)); do  # in turns: other work on this machine slows down both
            over near "$program"
            near_runs+=("$seconds")
            over "$name" "$program"
            runs+=("$seconds")
        done
        here=$(median "${near_runs[@]}") measured=$(median "${runs[@]}")
        # What the link adds, on top of what it takes nearby with rgpu run around it.
        all=()
        for prediction in "${predictions[@]}"; do
            all+=("$(json "$here - j['measured_s'] +
                [l for l in j['links'] if l['name'] == '$name'][0]['seconds']" "$prediction")")
        done
        told=$(median "${all[@]}")
        off=$(json "round(100 * ($told / $measured - 1), 1)" '{}')
        row=$(printf '| %-8s | %-5s | %5.2f | %6.2f | %6.2f | %+5.1f %% |' "$program" "$name" \
            "$here" "$told" "$measured" "$off")
        echo "$row" >> table
        ok "$program over $name: $told s predicted, $measured s measured ($off %)" \
            json_true "abs($off) <= 100 * $limit" <<< '{}'
    done <<< "$links"
done
note "| program | link | near, s | predicted, s | measured, s | off |"
while read -r row; do note "$row"; done < table
done_testing
