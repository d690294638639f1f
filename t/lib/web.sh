# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For tests of rgpu web's page:  . "$(dirname "$0")/lib/web.sh"  (after tap.sh)
#
#   web NAME [OPTION...]   starts rgpu web on a port of its choice, unless an option says another;
#                          sets $web_pid, $at (host:port) and $token; its output is $T/NAME.log
#   bearer                 the header with $token
#   get TARGET [OPTION...] one request by curl; sets $code, $head and $body
#   need_browser           skips the whole test where there is no Chromium
#   browser                opens one (t/py/web_live.py) for the page at $at
#   sees NAME STEP         passes when the expression of JavaScript becomes true there within 30 s,
#                          or the step ("!go", "!key Enter") is done
#   readable NAME          passes when every text there has enough contrast, in light and in dark
#   told LINES             a test for each line "ok NAME" and "not ok NAME: why"

web()
{
    local name=$1
    shift
    [[ $* == *--listen* ]] || set -- --listen 127.0.0.1:0 "$@"
    start "$name" "$build/bin/rgpu" web --interval 200ms "$@"
    web_pid=$pid
    wait_for 20 grep -q '^http://' "$T/$name.log" || bail "rgpu web: $(cat "$T/$name.log")"
    at=$(sed -n 's|^http://\([^/]*\)/.*|\1|p' "$T/$name.log")
    token=$(sed -n 's|^http://.*#token=||p' "$T/$name.log")
}
bearer() { echo "Authorization: Bearer $token"; }
get()
{
    local target=$1
    shift
    : > "$T/.body"
    code=$(curl -s -m 10 -D "$T/.head" -o "$T/.body" -w '%{http_code}' "$@" "http://$at$target")
    head=$(tr -d '\r' < "$T/.head") body=$(tr -d '\0' < "$T/.body")
}

need_browser()
{
    local tool
    for tool in chromium chromedriver; do
        command -v $tool > /dev/null ||
            skip_all "$tool is missing: apt-get install chromium chromium-driver"
    done
}
browser()
{
    coproc BROWSER { exec python3 "$py/web_live.py" "$root" "http://$at/" 2> "$T/browser.log"; }
    # shellcheck disable=SC2153 # coproc sets it
    cleanup_do kill "$BROWSER_PID"
}
browser_says()
{
    local answer
    echo "${1//$'\n'/ }" >&"${BROWSER[1]}"
    IFS= read -r -t 120 answer <&"${BROWSER[0]}"
    echo "$answer"
}
sees() { is "$(browser_says "$2")" ok "$1"; }
readable()
{
    local theme
    for theme in light dark; do
        is "$(browser_says "!contrast $theme")" ok "$1: every text can be read in $theme"
    done
}
told()
{
    local line
    while IFS= read -r line; do
        case $line in
        "ok "*) pass "${line#ok }" ;;
        "not ok "*) fail "${line#not ok }" ;;
        *) note "$line" ;;
        esac
    done <<< "$1"
}
