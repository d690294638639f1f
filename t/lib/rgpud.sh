# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For tests that start an rgpud of their own:  . "$(dirname "$0")/lib/rgpud.sh"  (after tap.sh)
#
#   rgpud NAME [LINE...]     starts one on loopback, ports of the kernel's choice; LINEs go under
#                            [rgpud] in
#                            its file. Sets $pid, $control and $data (ports); its log is $T/NAME.log
#   clients NAME=PORT...     writes $T/rgpu.conf for clients of these servers and exports RGPU_CONF
#   api METHOD TARGET [BODY] one request to $control; sets $status and $body
#   json EXPRESSION [TEXT]   evaluates Python with `j` the JSON of $body, or of TEXT
#   logged NAME REGEX        how many lines of the log match
#   ticks PID                processor time that the process has used (getconf CLK_TCK of them are a
#                            second)
#
#   workers_of PID           the workers of the rgpud of that pid, whoever started them; more words
#                            are options of grep for the names of
#                            their programs, in the place of rgpu-worker
#
# $rgpud_program is another than the build's; $auth is the [auth] table of both kinds of file;
# method none unless a test sets it.
# Software GPUs: two of 64M each, unless a LINE says otherwise.

auth='method = "none"'
# Workers run as another user where root starts rgpud, and must reach what stands here.
[ -z "${T-}" ] || chmod 755 "$T"
worker_user=$(id -un)

rgpud()
{
    local name=$1 line
    shift
    {
        printf '[auth]\n%s\n[rgpud]\nname = "%s"\n' "$auth" "$name"
        # A test's own lines go before the standard ones.
        for line in "$@"; do echo "$line"; done
        while read -r line; do
            printf '%s\n' "$@" | grep -q "^${line%% =*} =" || echo "$line"
        done <<EOF
listen = "127.0.0.1"
control_port = 0
data_port = 0
driver = "softgpu"
softgpu_memory = "64M"
softgpu_library = "$softgpu/libcuda.so.1"
worker = "$build/libexec/rgpu-worker"
worker_user = "$worker_user"
state_dir = "$T/$name.state"
EOF
    } > "$T/$name.conf"
    start "$name" "${rgpud_program:-$build/sbin/rgpud}" --verbose --config "$T/$name.conf" \
        --ready-file "$T/$name.ready"
    cleanup_do end_rgpud "$pid" "$T/$name.state"
    wait_for 20 test -s "$T/$name.ready" || bail "rgpud $name does not start: $(cat "$T/$name.log")"
    control=$(json 'j["control_port"]' "$(cat "$T/$name.ready")")
    data=$(json 'j["data_port"]' "$(cat "$T/$name.ready")")
}

# With its workers, and the cgroups that they were in (rgpud/workers/spawner_start.cc).
end_rgpud()  # PID STATE_DIR
{
    [ -e "/proc/$1" ] && stop "$1"
    wait_for 5 no_cgroups "rgpu-$(printf %s "$2" | sha256sum | cut -c1-12)"
}
no_cgroups()
{
    local base
    for base \
        in /sys/fs/cgroup/{,cpu,memory,pids}/{,"$(sed -n 's/.*:memory://p' \
        /proc/self/cgroup)"}/$1; do
        [ -d "$base" ] || continue
        cat "$base"/*/cgroup.procs 2> /dev/null | xargs -r kill -KILL 2> /dev/null
        rmdir "$base"/*/ "$base" 2> /dev/null
        [ ! -d "$base" ] || return 1
    done
}

clients()
{
    local server
    {
        printf '[auth]\n%s\n[client]\ninterposer_dir = "%s"\nterm = "3s"\n' "$auth" "$interpose"
        for server in "$@"; do
            printf '[[server]]\nname = "%s"\naddress = "127.0.0.1:%s"\n' "${server%=*}" \
                "${server#*=}"
        done
    } > "$T/rgpu.conf"
    export RGPU_CONF=$T/rgpu.conf
}

api()
{
    local method=$1 target=$2
    code=$(curl -s -m 10 -H 'Content-Type: application/json' -o "$T/.body" -w '%{http_code}' -X \
        "$method" -H 'Expect:' ${3+--data-binary} ${3+"$3"} \
        $([ $# -gt 2 ] || [ "$method" = GET ] || echo -H Content-Length:0) \
        "http://127.0.0.1:$control$target")
    body=$(cat "$T/.body" 2>/dev/null)
}

json() { json_value "str(($1))" <<< "${2-$body}"; }

# They say in their environment which state_dir they are of.
workers_of()
{
    local conf state pid
    [ "$(id -u)" = 0 ] || { pgrep -P "$1" "${2:-rgpu-worker}"; return; }
    conf=$(tr '\0' '\n' < "/proc/$1/cmdline" 2> /dev/null | sed -n '/^--config$/{n;p}')
    state=$(sed -n 's/^state_dir = "\(.*\)"/\1/p' "$conf" 2> /dev/null)
    for pid in $(pgrep "${2:-^rgpu-worker}"); do
        grep -qsaF "RGPU_SOFTGPU_HOST=$state/softgpu" "/proc/$pid/environ" && echo "$pid"
    done
}

ticks()
{
    cat "/proc/$1/task"/*/stat 2> /dev/null |
        awk '{sub(/.*\) /, ""); n += $12 + $13} END {print n + 0}'
}

logged() { grep -cE "$2" "$T/$1.log"; }
