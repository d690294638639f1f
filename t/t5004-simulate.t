#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rgpu simulate: traces, policies, JSON; and that ten thousand servers take seconds.
. "$(dirname "$0")/lib/tap.sh"
rgpu=$build/bin/rgpu
unset RGPU_CONF

printf 'servers 1 4 8G\nservers 1 2 8G\nrequest 0 2 100 0 100\nrequest 10 4 100 0 100\n' > "$T/pins"
try 20 "$rgpu" simulate "$T/pins"
like "$rc $out" '^0 2 servers, 6 GPUs, 2 requests in 10.0 s; 0 can never be served
POLICY .*
best-fit +33.3% +0.0% +0.0 s .*
worst-fit +33.3% +50.0% +45.0 s .*
first-fit +33.3% +50.0% ' "ain't no pins: best fit alone leaves the large server whole"
try 20 "$rgpu" simulate --json --policy worst-fit - < "$T/pins"
is "$(json_value 'str([(p["policy"], p["waited"], p["wait_max_s"]) for p in j["policies"]])' \
    <<< "$out")" \
    "[('worst-fit', 1, 90.0)]" "--json, --policy, and a trace from stdin"
cat > "$T/span" <<'END'
servers 2 2 8G
request 0 3 100 0 10
request 1 2 100 0 10
request 2 1 100 0 5
request 20 5 100 0 1
END
try 20 "$rgpu" simulate --policy best-fit "$T/span"
like "$rc $out" '^0 2 servers, 4 GPUs, 4 requests in 20.0 s; 2 can never be served' \
    "without --span three GPUs of two servers are never served"
try 20 "$rgpu" simulate --span --policy best-fit "$T/span"
like "$rc $out" '^0 .*4 requests in 20.0 s; 1 can never be served
.*SCATTERED +SPANNED
best-fit +.* 33.3% +3.0 s .* 33.3%$' "--span: they are, and whoever comes next waits"
try 20 "$rgpu" simulate --policy round-robin "$T/pins"
like "$rc $err" '^2 .*best-fit, worst-fit and first-fit are known' "a policy that is none"
echo 'request 5' >> "$T/pins"
try 20 "$rgpu" simulate "$T/pins"
like "$rc $err" "^1 .*$T/pins: line 5: write request ARRIVAL" "a wrong line is told"
try 20 "$rgpu" simulate /nonexistent/trace
like "$rc $err" '^1 .*/nonexistent/trace: No such file' "no such trace"
try 20 "$rgpu" simulate "$T"
like "$rc $err" "^1 .*$T is a directory: name a file with a trace" "a directory is no trace"

ok "contrib/pool-trace makes one" "$root/contrib/pool-trace" --servers 10000 --requests 5000 \
    --load 0.9 --seed 7
"$root/contrib/pool-trace" --servers 10000 --requests 5000 --load 0.9 --seed 7 > "$T/large"
is "$("$root/contrib/pool-trace" --servers 10000 --requests 5000 --load 0.9 --seed 7 | cksum)" \
    "$(cksum < "$T/large")" "... the same for the same seed"
try 120 "$rgpu" simulate --json --policy best-fit "$T/large"
is "$rc $(json_value \
    '[(p := j["policies"][0])["servers"], p["requests"] + p["never"]]' <<< "$out")" "0 10000 5000" \
    "10,000 servers are replayed"
done_testing
