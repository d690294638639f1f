#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The page of rgpu web in Debian's Chromium: 200 servers and 1,600 GPUs stay smooth, every text can
# be read, by keyboard and in narrow windows, too; what changes in a pool is seen at once.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
. "$(dirname "$0")/lib/web.sh"
rgpu=$build/bin/rgpu
need_browser

# --- a large pool that is made up

start pool python3 "$py/made_up_pool.py" "$root" "$T/made-up.conf" 200 8 10
pool_pid=$pid
ok "200 servers are there" wait_for 30 grep -q ready "$T/pool.log"
RGPU_CONF=$T/made-up.conf web large
try 500 python3 "$py/web_page.py" "$root" "http://$at/#token=$token"
told "$out"
is "$rc" 0 "the browser came to its end" || diag "$err"
stop "$web_pid"
stop "$pool_pid"

# --- a pool that changes while a page is open

rgpud gpu1
clients "gpu1=$control"
printf 'a-token-of-the-test-that-is-long-enough' > "$T/token"
chmod 600 "$T/token"
port=$(free_port)
printf '[web]\ntoken_file = "%s"\n' "$T/token" >> "$T/rgpu.conf"
web live --listen "127.0.0.1:$port"
browser
cell() { echo "/^$2/.test(document.querySelectorAll('.gpu')[$1]?.innerText)"; }

sees "a page without a token" '!go'
sees "... asks for one" 'document.getElementById("ask").hidden === false'
sees "... in a field that has the keyboard" 'document.activeElement.id === "token"'
sees "a wrong one is typed" '!type a-wrong-token'
sees "... and entered" '!key Enter'
sees "... which it says" '/needs the token/.test(document.getElementById("refused").innerText)'
sees "the right one" '!type a-token-of-the-test-that-is-long-enough'
sees "... and entered" '!key Enter'
sees "... shows the pool" "$(cell 1 free)"

"$rgpu" drain gpu1:1 --reason 'new fans' > "$T/drained"
sees "a GPU that is drained" "$(cell 1 'drained: new fans')"
"$rgpu" resume gpu1:1 > "$T/resumed"
sees "... and is back" "$(cell 1 free)"
start program "$rgpu" run -n 1 -p 0.5 -- sleep 300
program=$pid
sees "a program that gets half a GPU" "$(cell 0 "$(id -un) 50 %")"
stop "$program"
sees "... and has ended" "$(cell 0 free)"
stop "$web_pid"
sees "rgpu web has ended: no connection" \
    'document.getElementById("live").className === "lost"'
web again --listen "127.0.0.1:$port"
sees "... and comes back by itself" 'document.getElementById("live").className === "live"'
"$rgpu" drain gpu1:0 --reason 'old fans' > "$T/drained"
sees "... with what is new" "$(cell 0 'drained: old fans')"
done_testing
