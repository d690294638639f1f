#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The man pages hold every option of --help and every key of rgpu.conf with its default.
. "$(dirname "$0")/lib/tap.sh"
man=$root/doc/man
rgpu=$build/bin/rgpu

plain() { sed 's/\\-/-/g; s/\\f[BIRP]//g; s/^\.[A-Z]* //; s/" "//g; s/"\([^"]*\)"/\1/g' "$1"; }
options() { "$@" --help | grep -oE '(^|[ ,])--?[a-zA-Z][a-z-]*' | tr -d ' ,' | sort -u; }
missing_options()  # PAGE, COMMAND...
{
    local page=$1 option text
    shift
    text=$(plain "$man/$page")
    for option in $(options "$@"); do
        grep -qE -- "(^|[ ,|])$option([ ,|=]|\$)" <<< "$text" || echo "$option"
    done
}

is "$(missing_options rgpud.8.in "$build/sbin/rgpud")" "" "rgpud(8) has every option"
[ "$(options "$build/sbin/rgpud" | wc -l)" -ge 8 ]
is $? 0 "... of which there are some"
for key in user spawner worker worker_uids worker_user state_dir confine_workers; do
    ok "rgpu-spawner(8) says that $key decides" grep -qE "^\.BR? $key( |\$)" \
        "$man/rgpu-spawner.8.in"
done
is "$(missing_options rgpu.1.in "$rgpu")" "" "rgpu(1) has every option of rgpu"
if [ -x "$build/lib/smi/nvidia-smi" ]; then
    is "$(missing_options rgpu-nvidia-smi.1.in "$build/lib/smi/nvidia-smi")" "" \
        "rgpu-nvidia-smi(1) has every option"
else
    skip "nvidia-smi is not built: no nvml.h"
fi
commands() { "$rgpu" "$@" --help | sed -n '/^Subcommands:/,$s/^  \([a-z-]*\) .*/\1/p'; }
for command in $(commands) $(commands slurm | sed 's/^/slurm:/'); do
    # shellcheck disable=SC2086 # two words for rgpu slurm NAME
    is "$(missing_options rgpu.1.in "$rgpu" ${command/:/ })" "" \
        "rgpu(1) has every option of ${command/:/ }"
    ok "... and the command" grep -qE \
        "^(\.SS|\.B|\.BR) ${command#*:}\$" <(sed 's/\\-/-/g' "$man/rgpu.1.in")
done

# The options' and arguments' names as the plugin's code has them.
names=$(grep -ohE '"rgpus?-[a-z-]+"' \
    "$root"/src/{plugin/spank/options.cc,slurm/terms/filters.cc,slurm/terms/request.h} | tr -d '"' |
    sort -u | sed 's/^/--/')
arguments=$(grep -oE '\{"[a-z]+", &out\.' "$root/src/plugin/spank/settings.cc" | cut -d'"' -f2 |
    sed 's/$/=/')
is "$(wc -w <<< "$names $arguments")" 19 "the SPANK plugin has thirteen options and six arguments"
is "$(for name in $names $arguments; do plain "$man/spank_rgpu.8.in" | grep -qF -- "$name" ||
    echo "$name"; done)" "" "spank_rgpu(8) has them all"

"$rgpu" config --defaults --json > "$T/keys.json"
python3 "$py/man_page_keys.py" "$T/keys.json" "$man/rgpu.conf.5.in" > "$T/keys"
is "$(cat "$T/keys")" True "rgpu.conf(5) has every key with its default, and no other"
is "$(RGPU_CONF=$root/etc/rgpu.conf "$rgpu" config > /dev/null && echo read)" read \
    "etc/rgpu.conf is good"
if command -v man > /dev/null; then
    for page in "$man"/*.in; do
        is "$(LC_ALL=C.UTF-8 man --warnings -l "$page" 2>&1 > /dev/null)" "" \
            "$(basename "$page") is well-formed"
    done
else
    skip "man is not installed"
fi
done_testing
