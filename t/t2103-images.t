#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A module image that the server has seen is not sent again: in one program, in the next, never
# another user's, and never a damaged one.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

big=200000
rgpud gpu1 'image_cache = "1M"'
rgpud_pid=$pid
clients "gpu1=$control"
images=$T/gpu1.state/images/$(id -u)

# Runs the steps in a program; sets $sent (bytes), $trips (round trips, without those of its
# allocations: a slow program gives its credit back meanwhile).
run()
{
    rm -f "$T/stats.json"
    try 60 env RGPU_STATS="$T/stats.json" "$build/bin/rgpu" run --wait 20s -- python3 \
        "$root/t/lib/images.py" "$@"
    sent=$(json 'j["bytes_sent"]' "$(cat "$T/stats.json")") \
        trips=$(json 'j["round_trips"] - sum(c["round_trips"] for n, c in j["by_name"].items()
            if n == "cuMemAlloc_v2")' "$(cat "$T/stats.json")")
    [ "$rc" = 0 ]
}
ran() { run "${@:2}"; is "$rc" 0 "$1" || diag "$out$err$(tail -n 5 "$T/gpu1.log")"; }
kept() { find "$images" -type f ! -name '.*' | wc -l; }
kept_is() { [ "$(kept)" = "$1" ]; }

# What the smallest module costs, and the same twice.
ran "a small image" module 1 100
small=$sent
ran "... twice" module 1 100 module 1 100
more=$((sent - small)) twice=$trips
is "$(kept)" 0 "small images are not kept"

ran "an image" module 2 $big
ok "its bytes are sent" test "$sent" -gt $big
ok "... and kept" wait_for 10 kept_is 1
first=$trips
ran "the same in another program" module 2 $big
ok "no bytes are sent again: $sent" test "$sent" -lt $((small + 200))
is "$trips" "$first" "... and no round trip is added"
ran "a new image twice in one program" module 3 $big module 3 $big
ok "... is sent once: $sent" test "$sent" -lt $((big + small + more + 500))
is "$trips" "$twice" "... with the round trips of two small ones"
ran "a library" library 2 $big
ok "... of an image that came as a module: $sent" test "$sent" -lt $((small + 400))
ran "the linker" link 2 $big
ran "... again" link 2 $big
ok "... sends neither its input nor its result then: $sent" test "$sent" -lt $((small + 1000))
before=$(kept)
ran "an image that does not compile" bad $big
is "$(kept)" "$before" "... is not kept"

# --- damage

rm -f "$images"/*
ran "an image" module 4 $big
wait_for 10 kept_is 1
file=$(echo "$images"/*)
cp "$file" "$T/good"
damaged()  # NAME: the file is what it was again afterwards, and the image was sent
{
    ran "$1: the right kernel runs" module 4 $big
    ok "... because it was sent again" test "$sent" -gt $big
    same() { cmp -s "$file" "$T/good"; }
    ok "... and kept again" wait_for 10 same
}
sed -i 's/mov.u32 %v, 4;/mov.u32 %v, 5;/' "$file"
not_ok "another kernel is in the file" cmp -s "$file" "$T/good"
damaged "a changed image"
like "$(cat "$T/gpu1.log")" "the kept image [0-9a-f]{16} is damaged, and removed" \
    "... and the log says so"
head -c 100000 "$T/good" > "$file"
damaged "half an image"
: > "$file"
damaged "an empty file"
chmod 666 "$file"
damaged "a file that others may write"
run module 6 $big
wait_for 10 kept_is 2
for other in "$images"/*; do [ "$other" = "$file" ] || cp "$other" "$file"; done
damaged "another image under its name"
rm "$file"
ln -s "$T/good" "$file"
damaged "a symbolic link"

# --- the bound

for seed in 11 12 13 14 15 16 17; do run module $seed $big; done
small_enough() { [ "$(du -sb --apparent-size "$images" | cut -f1)" -lt $((1 << 20)) ]; }
ok "no more than image_cache says" wait_for 10 small_enough
ok "... but not nothing" test "$(kept)" -ge 3
run module 20 $((600 << 10))
not_ok "an image of more than half of it is not kept" grep -rqs 'mov.u32 %v, 20;' "$images"

# --- another user

api POST /v1/offers '{"gpus": 1, "owner": {"uid": 424242, "host": "here", "pid": 1}}'
api POST "/v1/offers/$(json 'j["id"]')/accept"
printf '{"version": 1, "servers": [{"name": "gpu1", "address": "127.0.0.1:%s",
    "lease": "%s", "secret": "%s"}]}\n' "$data" "$(json 'j["leases"][0]["id"]')" \
    "$(json 'j["leases"][0]["secret"]')" > "$T/other.json"
try 60 env RGPU_LEASE="$T/other.json" LD_LIBRARY_PATH="$interpose" RGPU_STATS="$T/stats.json" \
    python3 "$root/t/lib/images.py" module 17 $big
is "$rc" 0 "another user's program with an image that is kept" || diag "$out$err"
ok "... sends it" test "$(json 'j["bytes_sent"]' "$(cat "$T/stats.json")")" -gt $big
# This host does not know him: his images are where his workers alone see them, and end with his
# job.
his_images()
{
    local worker
    for worker in $(workers_of "$rgpud_pid"); do
        grep -rls 'mov.u32 %v, 17;' "/proc/$worker/root$T/gpu1.state/own/images" && return
    done
    return 1
}
if [ "$(id -u)" = 0 ]; then
    ok "... and has it kept in a directory of its own" wait_for 10 his_images
    kept_at=$(his_images | head -n 1)
    is "$(stat -c %a "${kept_at%/*}" "$images" | sort -u)" 700 "... that nobody else can read"
else
    skip "needs a spawner: all workers are this user's" 2
fi

# Who knows the digest alone gets nothing: the worker of that user, asked with another's digest.
export RGPU_DRIVER=$softgpu/libcuda.so.1 RGPU_SOFTGPU_HOST=$T/host RGPU_SOFTGPU_MEMORY=64M
export RGPU_WORKER_IMAGES_BYTES=1000000
mkdir "$RGPU_SOFTGPU_HOST"
mine=$(grep -rls 'mov.u32 %v, 16;' "$images")
guess()
{
    RGPU_WORKER_IMAGES=$1 try 60 python3 "$root/t/lib/wire_client.py" "$build/libexec/rgpu-worker" \
        "$2"
}
RGPU_TEST_BYTES=$(stat -c %s "$mine")
export RGPU_TEST_DIGEST=${mine##*/} RGPU_TEST_BYTES
guess "$images" image_digest
is "$out $err" "status 0;  loaded" "a digest of the user's own image is enough"
mkdir -m 700 "$T/others-images"
guess "$T/others-images" image_digest
is "$out $err" "status 0;  missing" "a digest of another's image is not"
guess "$images" image_lies
like "$out" "^status 3; .*its parts do not fit its image" \
    "a digest with another size ends the connection" || diag "$err"
guess "$images" image_long_digest
like "$out" "^status 3; .*its body does not fit its parameters" "so does a digest of 33 bytes" ||
    diag "$err"
guess "$images" image_form
like "$out" "^status 3; .*its body does not fit its parameters" \
    "so does neither bytes nor digest" || diag "$err"

# --- nothing kept

stop "$pid"
rgpud gpu2 'image_cache = "0"'
clients "gpu2=$control"
run module 2 $big
ok "image_cache = 0: an image is sent" test "$rc" = 0 -a "$sent" -gt $big
run module 2 $big module 2 $big
ok "... each time" test "$rc" = 0 -a "$sent" -gt $((2 * big))
is "$(ls -A "$T/gpu2.state/images/$(id -u)" 2> /dev/null)" "" "... and not kept"
done_testing
