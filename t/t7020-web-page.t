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
mkdir "$T/history"
# GPUs, held, in use, memory, held, used, drained, and what jobs wait for:
python3 "$py/history_ring.py" "$T/history/server-gpu1.ring" 2 1.5 0.25 2e9 1e9 3e8 1 0
python3 "$py/history_ring.py" "$T/history/queue.ring" 0 0 0 0 0 0 0 6
printf '[web]\ntoken_file = "%s"\nhistory = "%s"\n' "$T/token" "$T/history" >> "$T/rgpu.conf"
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

sees "the history" '!click nav a[href="#history"]'
drawn() { echo "[...document.querySelectorAll('.chart:not([hidden]) canvas')].filter((c) => new Set(
    c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size > 8).length === $1"; }
says() { echo "/$1/.test(document.querySelector('.chart:nth-child($2) .now')?.innerText)"; }
sees "... has three charts, drawn" "$(drawn 3)"
sees "... with the GPUs of the pool" "$(says 'there 2, held 1.5, in use 0.3, drained 1' 1)"
sees "... and those that jobs wait for" "$(says 'wait for 6' 3)"
sees "... a day alone, where there is no Prometheus" \
    '[...document.querySelectorAll(".tools button:not([hidden])")].map((b) => b.innerText)
        .join() === "Day"'
sees "one server is chosen" '(() => { const server = document.querySelector("select");
    server.value = "gpu1"; server.dispatchEvent(new Event("change")); return true; })()'
sees "... for which nobody waits" "$(drawn 2)"
sees "a picture" "!shot history"
readable "the history"
sees "the pool again" '!click nav a[href="#pool"]'

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
