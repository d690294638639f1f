#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rgpu web without a browser: who is told what, what it refuses, and that an attacker who connects
# keeps nobody else from the page.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
. "$(dirname "$0")/lib/web.sh"
rgpu=$build/bin/rgpu

raw() { timeout 10 bash -c 'exec 3<> "/dev/tcp/${0/:/\/}"; printf "$1" >&3; cat <&3' "$at" "$1"; }
# leased UID USER: a quarter of a GPU for somebody's job
leased()
{
    api POST /v1/offers "{\"gpus\": 1, \"share\": 25, \"owner\": {\"uid\": $1, \"user\": \"$2\",
        \"job\": \"$3\", \"node\": \"cn1\"}}"
    api POST "/v1/offers/$(json 'j["id"]')/accept"
    is "$code" 200 "${4-job $3 of $2 has a part of a GPU}"
}

rgpud gpu1
one=$control
clients "gpu1=$control"
web local
like "$token" '^[0-9a-f]{64}$' "it prints an address with a token of 256 bits"

# --- the page itself, which says nothing of the pool

get /
is "$code" 200 "the page is served without the token"
like "$body" '<script type="module" src="app.js"></script>' "... with its script"
unlike "$body" 'https?://' "... and nothing in it is from elsewhere"
like "$head" "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self';" \
    "its scripts and styles are this server's alone"
like "$head" "frame-ancestors 'none'" "... and no other site can frame it"
like "$head" 'X-Content-Type-Options: nosniff' "... nor does a browser guess what a file is"
for file in style.css icon.svg app.js stream.js words.js pool.js queue.js history.js job.js \
    charts.js; do
    get /$file
    is "$code" 200 "$file"
done
get /pool.js
etag=$(sed -n 's/^ETag: //p' <<< "$head")
get /pool.js -H "If-None-Match: $etag"
is "$code ${#body}" "304 0" "a browser that has a file is not sent it again"
like "$(raw 'HEAD /pool.js HTTP/1.0\r\nHost: localhost\r\n\r\n' | tr -d '\r' | tail -n 2)" \
    '^Connection: close$' "HEAD is answered without the file"

# --- the token

for what in "" "Authorization: Bearer" "Authorization: Bearer ${token%?}" \
    "Authorization: Bearer ${token}0" "Authorization: Basic $token"; do
    get /v1/pool -H "$what"
    is "$code" 401 "no answer to \"${what:0:24}\""
done
like "$body" 'needs the token that rgpu web has printed' "... and it says what is missing"
get /v1/pool -H "$(bearer)" -H "$(bearer)"
is "$code" 401 "two tokens are none"
get /v1/events
is "$code" 401 "nor are there events without it"
pool_told() { get /v1/pool -H "$(bearer)"; json_true 'len(j["servers"])' <<< "$body"; }
ok "with the token, the pool" wait_for 20 pool_told
is "$(json 'j["servers"][0]["name"], len(j["servers"][0]["gpus"]), j["viewer"]["all"]')" \
    "('gpu1', 2, True)" "... with both GPUs"
like "$head" 'Cache-Control: no-store' "... which no browser keeps"
get /v1/nothing -H "$(bearer)"
is "$code" 404 "what there is not"

# --- names that a page of another site could point here

get /v1/pool -H "$(bearer)" -H 'Host: evil.example'
is "$code" 421 "under another name it serves nothing, with the token neither"
get / -H 'Host: 127.0.0.1.evil.example:80'
is "$code" 421 "... nor the page"
like "$body" 'add the name to \[web\] hosts' "... and says what to do about it"
get / -H 'Host: localhost:8000'
is "$code" 200 "localhost is right, whatever the port: ssh -L"
like "$(raw 'GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n' | head -n 1)" \
    ' 4(00|21) ' "two names are none"
like "$(raw 'GET / HTTP/1.0\r\n\r\n' | head -n 1)" ' 421 ' "nor is no name"

# --- what is no request of a browser

get /v1/pool -H "$(bearer)" -X POST
is "$code" 405 "POST is refused"
get /v1/pool -H "$(bearer)" -X DELETE
is "$code" 405 "... and DELETE"
get / -X GET -d '{"a": 1}'
is "$code" 400 "... and a body"
get / -H "X-Long: $(printf 'x%.0s' {1..20000})"
is "$code" 431 "... and a header of 20 kB"
like "$(raw 'nonsense\r\n\r\n' | head -n 1)" ' 400 ' "... and nonsense"
get '/../../etc/passwd' --path-as-is -H "$(bearer)"
is "$code" 404 "no file but its own"

# --- events

start events curl -sN -H "$(bearer)" "http://$at/v1/events"
events=$pid
heard() { grep -q "$1" "$T/events.log"; }
ok "a stream begins with the pool" wait_for 10 heard '^event: pool$'
ok "... goes on with changes" wait_for 10 heard '^event: changes$'
leased 4242 '<img src=x>' '17&lt;'
ok "a lease is in a change" wait_for 10 heard '"user":"<img src=x>"'
json_of_last() { sed -n 's/^data: \({.*"servers":{"0".*\)/\1/p' "$T/events.log" | tail -n 1; }
is "$(json 'next(h for g in j["servers"]["0"]["gpus"] for h in g["holders"])["job"]' \
    "$(json_of_last)")" '17&lt;' "... as it is: text that is for a page to show as text"
changes_without() { grep -q '"servers":{}' "$T/events.log"; }
ok "where nothing changed, no server is sent" wait_for 10 changes_without

# --- who connects and says nothing

many=$(ulimit -n)
[ "$many" -ge 1024 ] && many=700 || many=100
start silent python3 "$py/open_connections.py" "$at" "$many" 'GET / HTTP/1.1\r\nHost: '
ok "$many connections send half a request" wait_for 20 grep -q "^open $many\$" "$T/silent.log"
get / && is "$code" 200 "the page is served all the same"
count() { grep -c '^event: changes$' "$T/events.log"; }
before=$(count)
more() { [ "$(count)" -gt $((before + 2)) ]; }
ok "... and the stream goes on" wait_for 10 more
stop "$pid"
stop "$events"
streams=()
for i in $(seq 33); do
    start "stream$i" curl -s -N -w '%{http_code}' -H "$(bearer)" "http://$at/v1/events"
    streams+=("$pid")
done
refused() { grep -l 'too many pages' "$T"/stream*.log; }
ok "one user has 32 streams at most" wait_for 20 refused
for pid in "${streams[@]}"; do stop "$pid"; done
get /v1/events -m 2 -H "$(bearer)"
like "$code" 200 "... and another when those are closed"

kill -TERM "$web_pid"
wait "$web_pid"
is $? 0 "SIGTERM ends it with status 0"
unlike "$(cat "$T/local.log")" 'rror' "it had nothing to say meanwhile"

# --- a server that does not answer

leased 1 daemon 21
dead=$(free_port)
clients "gpu1=$one" "gpu2=$dead"

# --- behind a proxy

printf '%s\n' "$(head -c 24 /dev/urandom | base64)" > "$T/token"
chmod 600 "$T/token"
cat >> "$T/rgpu.conf" <<END
[web]
user_header = "X-Remote-User"
token_file = "$T/token"
hosts = ["gpus.example.org"]
END
sed -i 's/^method = "none"/&\nadmins = ["root", "2"]/' "$T/rgpu.conf"
web proxied
token=$(cat "$T/token")
unlike "$(cat "$T/proxied.log")" "token|$token" "a token of a file is not printed"
ok "the pool is there" wait_for 20 eval 'get /v1/pool -H "$(bearer)" -H "X-Remote-User: root"
    json_true "len(j[\"servers\"]) == 2" <<< "$body"'
like "$(json 'j["servers"][1]["failure"]')" 'refused' "a server that does not answer, and why"
as()
{
    get /v1/pool -H "$(bearer)" -H "X-Remote-User: $1"
    json 'sorted(h.get("user", "-") for s in j["servers"] for g in s["gpus"]
        for h in g["holders"]), j["viewer"]["all"]'
}
is "$(as root)" "(['<img src=x>', 'daemon'], True)" "an administrator sees whose all leases are"
is "$(as bin)" "(['<img src=x>', 'daemon'], True)" "... also one whom admins names by number"
is "$(as daemon)" "(['-', 'daemon'], False)" "a user sees his own"
is "$(as nobody)" "(['-', '-'], False)" "... and of others that a part is held"
get /v1/pool -H "$(bearer)" -H "X-Remote-User: nobody"
unlike "$body" 'daemon|img|cn1|"17|"21' "... with nothing else of them"
for name in 'no-such-user' '' 'root,daemon' "$(printf 'x%.0s' {1..300})"; do
    get /v1/pool -H "$(bearer)" -H "X-Remote-User: $name"
    is "$code" 403 "no answer to user \"${name:0:20}\""
done
get /v1/pool -H "$(bearer)" -H "X-Remote-User: daemon" -H "x-remote-user: root"
is "$code" 403 "... nor to two"
get /v1/pool -H "$(bearer)"
is "$code" 403 "... nor to none"
like "$body" 'must set the header X-Remote-User, once' "... and it says what the proxy must do"
get /v1/pool -H "X-Remote-User: root"
is "$code" 401 "a user's name without the token is anybody's"
get / -H 'Host: gpus.example.org'
is "$code" 200 "the proxy's name is served"

# Two who listen at once.
for user in root nobody; do
    start "as-$user" curl -sN -H "$(bearer)" -H "X-Remote-User: $user" "http://$at/v1/events"
done
leased 4343 evelyn 22
told() { grep -q '"user":"evelyn"' "$T/as-root.log"; }
ok "a new lease is told to the administrator" wait_for 10 told
told() { json_true '25 in [h["share"] for h in j["servers"]["0"]["gpus"][0]["holders"]]' \
    <<< "$(sed -n 's/^data: \({.*"servers":{"0".*\)/\1/p' "$T/as-nobody.log" | tail -n 1)"; }
ok "... and that somebody has a quarter, to another" wait_for 10 told
unlike "$(cat "$T/as-nobody.log")" 'evelyn|daemon|img' "... and not who"
stop "$web_pid"

# --- what it does not start with

refuses() { try 20 "$rgpu" web "$@"; }
refuses --listen 0.0.0.0:0
like "$rc $err" '^1 .*"0.0.0.0:0" is no address of this host alone: .* a proxy' \
    "it listens on no address of other hosts"
for wrong in nonsense 127.0.0.1 127.0.0.1:x 127.0.0.1:65536 ::1; do
    refuses --listen "$wrong"
    like "$rc $err" "^1 .*\"$wrong\" is no address" "... nor on $wrong"
done
busy=$(free_port)
start busy python3 -m http.server -b 127.0.0.1 "$busy"
ok "a port is taken" wait_for 10 eval "(: < /dev/tcp/127.0.0.1/$busy) 2> /dev/null"
refuses --listen "127.0.0.1:$busy"
like "$rc $err" '^1 .*cannot listen on .*in use; --listen 127.0.0.1:0' \
    "... which it says, and a cure"
refuses --interval 1ms
like "$rc $err" '^2 .*--interval: from 100ms to 1h' "an interval that is too short"
chmod 644 "$T/token"
refuses
like "$rc $err" "^1 .*token_file $T/token is open to all users.*chmod o=" \
    "a token that all can read"
chmod 600 "$T/token"
echo short > "$T/token"
refuses
like "$rc $err" '^1 .*a token is one line of 32 to 1024' "... a short one"
rm "$T/token"
refuses
like "$rc $err" '^1 .*token_file .*No such file.*make one with: ' "... none, and how to make one"
sed -i '/^token_file/d' "$T/rgpu.conf"
refuses
like "$rc $err" '^1 .*user_header needs a token_file' "names of users without a token"
done_testing
