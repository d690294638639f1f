# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What every t/tNNNN-topic.t starts with:  . "$(dirname "$0")/lib/tap.sh"
#
#   plan 3                        how many tests follow (or done_testing at the end)
#   ok NAME COMMAND...            passes when the command exits 0; its output is shown when it does
#                                 not
#   not_ok NAME COMMAND...        passes when it exits otherwise
#   is GOT WANTED NAME            passes when the two are the same text
#   like TEXT REGEX NAME          passes when the extended regular expression matches somewhere in
#                                 the text
#   unlike TEXT REGEX NAME        passes when it does not
#   pass NAME, fail NAME
#   skip REASON [COUNT]           the next COUNT (1) tests cannot run here
#   skip_all REASON               none of this file can
#   diag TEXT, note TEXT          a comment in stderr (always seen), in the TAP (seen with -v)
#
#   try LIMIT COMMAND...          runs it, at most LIMIT seconds: sets $rc (124: too long), $out,
#                                 $err
#   wait_for LIMIT COMMAND...     runs it again and again until it exits 0; 1 when LIMIT seconds
#                                 have passed
#   start NAME COMMAND...         starts it in the background, output in $T/NAME.log; sets $pid;
#                                 ended with the test
#   stop PID                      ends a started process and waits for it
#   free_port                     a loopback TCP port that nobody uses; two calls in a test never
#                                 give the same
#   cleanup_do COMMAND...         runs it at the end, last one first
#   json_value EXPRESSION [A...]  prints the value of a Python expression over the JSON on stdin, j
#   json_true EXPRESSION [A...]   passes when it is true (t/py/json_value.py)
#
# $T is the test's own empty directory; it is removed when all is well, else its path is told.
# $py is the folder of the tests' Python programs, $root the source tree, $build the build tree,
# $cuda_libs the toolkit's libraries, $softgpu, $interpose ours.
# $RGPU_KEEP_LOGS is a folder that gets the test's logs when it ends.
# `./t/tNNNN-topic.t -v` shows the output of passing commands too.

set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck disable=SC2034
py=$root/t/py
build=${RGPU_BUILD:-$root/build}
cuda_libs=${RGPU_CUDA_LIBDIR:-/usr/local/cuda/lib64}
interpose=$build/lib/interpose
softgpu=$build/lib/softgpu
test_name=$(basename "$0" .t)
verbose=
[ "${1:-}" = -v ] && verbose=1

T=$(mktemp -d "${TMPDIR:-/tmp}/rgpu-$test_name.XXXXXX")
tap_run=0 tap_failed=0 tap_planned= tap_owner=$BASHPID
tap_started=() tap_cleanup=() tap_ports=()

diag() { printf '# %s\n' "$*" | sed '2,$s/^\([^#]\)/# \1/' >&2; }
note() { printf '# %s\n' "$*" | sed '2,$s/^\([^#]\)/# \1/'; }

plan() { tap_planned=$1; echo "1..$1"; }
done_testing() { plan $tap_run; }

tap_result()  # 0 or 1, name
{
    tap_run=$((tap_run + 1))
    if [ "$1" = 0 ]; then
        echo "ok $tap_run - $2"
    else
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_run - $2"
        diag "failed: $test_name: $2"
    fi
    [ "$1" = 0 ]
}

pass() { tap_result 0 "$1"; }
fail() { tap_result 1 "$1"; }

ok()
{
    local name=$1 status=0
    shift
    "$@" > "$T/.ok" 2>&1 || status=$?
    if ! tap_result $((status != 0)) "$name"; then
        diag "exit status $status of: $*"
        diag "$(tail -n 40 "$T/.ok")"
        return 1
    fi
    [ -z "$verbose" ] || note "$(cat "$T/.ok")"
}

not_ok()
{
    local name=$1 status=0
    shift
    "$@" > "$T/.ok" 2>&1 || status=$?
    tap_result $((status == 0)) "$name" || { diag "exit status 0 of: $*"; diag \
        "$(tail -n 40 "$T/.ok")"; return 1; }
}

is()
{
    tap_result $([ "$1" = "$2" ]; echo $?) "$3" ||
        { diag "   got: $1"; diag "wanted: $2"; return 1; }
}

like()
{
    tap_result $([[ $1 =~ $2 ]]; echo $?) "$3" ||
        { diag "   got: $1"; diag "wanted a match of: $2"; return 1; }
}

unlike()
{
    tap_result $([[ ! $1 =~ $2 ]]; echo $?) "$3" ||
        { diag "     got: $1"; diag "unwanted: $2"; return 1; }
}

skip()
{
    local i
    for ((i = 0; i < ${2:-1}; i++)); do
        tap_run=$((tap_run + 1))
        echo "ok $tap_run # skip $1"
    done
}

skip_all()
{
    tap_planned=0
    echo "1..0 # SKIP $1"
    exit 0
}

bail() { tap_failed=$((tap_failed + 1)); diag "$*"; exit 1; }

try()
{
    local limit=$1
    shift
    rc=0
    timeout -k 5 "$limit" "$@" > "$T/.out" 2> "$T/.err" || rc=$?
    out=$(tr -d '\0' < "$T/.out") err=$(tr -d '\0' < "$T/.err")
    if [ -n "$verbose" ]; then
        note "\$ $*"
        note "$out"
        note "$err"
        note "exit status $rc"
    fi
    return 0
}

wait_for()
{
    local limit=$1 until
    shift
    until=$((SECONDS + limit))
    until "$@" > "$T/.wait" 2>&1; do
        if [ $SECONDS -ge $until ]; then
            diag "waited $limit s in vain for: $*"
            diag "$(tail -n 20 "$T/.wait")"
            return 1
        fi
        sleep 0.05  # between two looks
    done
}

start()
{
    local name=$1
    shift
    "$@" > "$T/$name.log" 2>&1 &
    pid=$!
    tap_started+=("$pid")
}

stop()
{
    kill "$1" 2>/dev/null
    wait_for 5 tap_gone "$1" || kill -9 "$1" 2>/dev/null
    wait "$1" 2>/dev/null
    return 0
}

tap_gone() { [ ! -e /proc/"$1" ] || grep -q '^State:.Z' /proc/"$1"/status; }

free_port()
{
    # In a subshell no array survives: the file does.
    local port
    while :; do
        port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
        grep -qx $port "$T/.ports" 2>/dev/null && continue
        (: < /dev/tcp/127.0.0.1/$port) 2>/dev/null && continue
        echo $port >> "$T/.ports"
        echo $port
        return
    done
}

json_value() { python3 "$py/json_value.py" "$@"; }
json_true() { json_value --true "$@"; }

cleanup_do() { tap_cleanup+=("$(printf '%q ' "$@")"); }

# The logs of this test that hold a secret of one of its lease files: there must be none.
tap_secrets_told()
{
    local secrets
    secrets=$(grep -rhoE '"secret": ?"[0-9a-f]{64}"' --exclude='*.log' "$T" 2> /dev/null |
        grep -oE '[0-9a-f]{64}' | sort -u)
    [ -z "$secrets" ] || grep -rlF -e "$secrets" --include='*.log' --include='audit*' "$T"
}

tap_end()
{
    local status=$? i
    [ $BASHPID = "$tap_owner" ] || return
    trap - EXIT
    for ((i = ${#tap_cleanup[@]} - 1; i >= 0; i--)); do
        eval "${tap_cleanup[i]}"
    done
    for ((i = ${#tap_started[@]} - 1; i >= 0; i--)); do
        [ -e "/proc/${tap_started[i]}" ] && stop "${tap_started[i]}"
    done
    [ -z "${RGPU_KEEP_LOGS:-}" ] || find "$T" -xdev -type f -name '*.log' -exec \
        cp --backup=numbered -t "$RGPU_KEEP_LOGS" {} +
    local told
    told=$(tap_secrets_told)
    if [ -n "$told" ]; then
        diag "$test_name: the secret of a lease is in a log: $told"
        status=1
    fi
    if [ -z "$tap_planned" ]; then
        diag "$test_name ended early (exit status $status)"
        [ $status -ne 0 ] || status=1
    elif [ "$tap_planned" != "$tap_run" ]; then
        diag "$test_name: planned $tap_planned tests, ran $tap_run"
        status=1
    fi
    if [ $tap_failed -gt 0 ] || [ $status -ne 0 ]; then
        diag "what is left of it: $T"
        [ $status -ne 0 ] || status=1
    else
        rm -rf "$T"
    fi
    exit $status
}
trap tap_end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
