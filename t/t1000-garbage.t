#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a worker does with frames that no client sends: it closes the connection, says why in one
# line, and never crashes. The client is t/lib/wire_client.py, written from doc/protocol.md alone.
. "$(dirname "$0")/lib/tap.sh"

worker=$build/libexec/rgpu-worker
export RGPU_DRIVER=$softgpu/libcuda.so.1 RGPU_SOFTGPU_HOST=$T/host RGPU_SOFTGPU_MEMORY=64M
mkdir "$RGPU_SOFTGPU_HOST"

client() { try 60 python3 "$root/t/lib/wire_client.py" "$worker" "$@"; }

# Ends well, and without a word.
good()  # CASE, NAME
{
    client "$1"
    is "$out" "status 0; " "$2" || diag "$err"
}

# Closed with one line that matches.
closed()  # CASE, STATUS, REGEX, NAME
{
    client "$1"
    like "$out" "^status $2; rgpu-worker: lease 01234567: connection closed: [^
]*$3[^
]*\$" "$4" || diag "$err"
}

good good "a well-behaved client is served, and its end is the worker's"
closed truncated_header 0 "inside a frame" "a connection that ends inside a header"
closed truncated_frame 0 "inside a frame" "a connection that ends inside a body"
closed oversize 3 "4294967295 bytes announced" "4 GiB announced"
closed oversize_copy 3 "1048577 bytes announced" "a chunk larger than chunks are"
closed unknown_call 3 "call number 60000" "a call number past the table"
closed not_sendable 3 "cuInit" "a call that clients answer themselves"
closed short_body 3 "cuMemAlloc_v2" "a body with one byte too few"
closed long_body 3 "cuMemAlloc_v2" "a body with one byte too many"
closed lying_copy 3 "100 bytes announced, 50 sent" "a chunk longer than its frame"
closed many_parts 3 "parts" "an image of more parts than there are bytes"
good bad_handles "numbers that are no handles are errors, and the worker goes on"
good huge_handle "numbers outside the table are refused"
good shared "shared memory: pushes, pulls, and ranges outside it"
good back_mapped "device memory at addresses that the program reserved, and nowhere else"
closed damaged_diff 3 "cuMemAllocManaged.*a damaged diff" "a damaged diff"
closed large_pull 3 "cuMemAllocManaged.*a pull of too many bytes" "a pull of too many bytes"

good packed "a client that packs, and wants packed what it gets"
closed packed_unasked 3 "call number 65525" \
    "a packed part from a client that has said nothing of it"
closed packed_greeted 3 "packed bytes: nobody has agreed to any" "... that has named no method"
closed packed_lies 3 "packed bytes: they do not become" "a part that becomes less than it says"
closed packed_more 3 "packed bytes: they do not become" "... and more"
closed packed_long 3 "packed bytes: a part of a length" "a part that is too long"
closed packed_no_less 3 "packed bytes: a part that is no shorter" \
    "a packed part that is longer than what it becomes"
closed packed_short 3 "packed bytes: a frame that is longer" "a frame that goes on behind its parts"
closed packed_rest 3 "packed bytes: a frame that is shorter" "parts that go on behind their frame"
closed packed_twice 3 "call number 65525" "a part in a part"
closed packed_other 3 "packed bytes: a method" "a method that was not agreed on"
closed packing_wish 3 "a word about packed frames" "a wish that none has"

good band "memory lies in the band that a client names"
closed band_far 3 "band 32, where" "a band beyond the last"
closed band_late 3 "band 1, where" "... and one when memory lies in another"
closed band_short 3 "a band of 2 bytes" "... and one that is no number"

good lanes "a client whose bytes come over three lanes"
closed lanes_none 3 "1 lanes that there are not" "lanes that nobody has given"
closed lanes_many 3 "17 lanes that there are not" "... more than a connection may have"
closed lanes_posted 3 "a word about lanes that no client says" "... that no reply is wanted for"
closed lanes_twice 3 "1 lanes that there are not" "lanes that have begun"
closed lanes_zero 3 "has broken the records of its lanes" "a record of no bytes"
closed lanes_other 3 "has broken the records of its lanes" "a record on a lane that there is not"
closed lanes_cut 0 "inside a frame" "a lane that ends before its record does"

good through_memory "a client that shares memory is served through it"
good offer_declined "an offer of somebody else's connection is declined, and the connection goes on"
good offer_unsealed "... of memory whose size can change"
good offer_small "... of too little memory"
good offer_one "... without its second descriptor"
good offer_word "... and by somebody who does not know the client's word"
closed offer_length 3 "an offer that no client makes" "an offer that is too long"
closed offer_late 3 "call number 65521" "an offer that is not the first frame"
closed offer_and_more 3 "frames behind an offer" "frames behind an offer"
closed shared_cut 0 "inside a frame" "a client that ends inside a frame in the memory"
closed shared_head 3 "has broken the shared memory" "a ring that holds more than it can"
closed shared_segment 3 "has broken the shared memory" "a segment longer than a place"

crashes_nothing()  # CASE, HOW OFTEN, NAME
{
    local seed crashed=
    for seed in $(seq "$2"); do
        client "$1" "$seed"
        [[ $out == "status 0;"* || $out == "status 3;"* ]] || crashed+=" seed $seed: $out $err"
    done
    is "$crashed" "" "$3"
}
crashes_nothing lanes_scribble 10 \
    "a client that writes anything into records and lanes crashes nothing"
crashes_nothing shared_scribble 10 \
    "a client that writes anything anywhere in the memory crashes nothing"
crashes_nothing fuzz 20 "random bodies of every call crash nothing"

is "$("$worker" --help | head -n 1)" \
    "usage: rgpu-worker [--inventory | --readings | --energy | --help | --version]" \
    "--help says how"
try 10 "$worker"
is "$rc" 2 "started by hand it says how it is used"
like "$("$worker" --inventory)" \
    '^\{"driver_version":[0-9]+,"driver_release":"[0-9.]+","gpus":\[\{"index":0,"uuid":"GPU-' \
    "--inventory prints JSON"
RGPU_DRIVER=/nonexistent/libcuda.so.1 try 10 "$worker" --inventory
is "$rc" 1 "a driver that is not there: exit status 1"
like "$err" "/nonexistent/libcuda.so.1" "... and the path is named"
done_testing
