# SPDX-License-Identifier: Apache-2.0
"""Requests that are signed with a key, and said again: signed.py PORT SERVER KEY_FILE NAME=SHIFT...

Each NAME is a request GET /v1/leases whose time is SHIFT seconds off; the first use of a NAME signs
it, and what was signed is kept in KEY_FILE.NAME. Prints the status of each, and the sentence of a
refusal.
"""
import hashlib
import hmac
import json
import os
import sys
import time
import urllib.error
import urllib.request

port, server, key_file = sys.argv[1:4]
for name, shift in (argument.split("=") for argument in sys.argv[4:]):
    file = key_file + "." + name
    if not os.path.exists(file):
        with open(key_file, "rb") as key, open(file, "w") as out:
            stamp, nonce = str(int((time.time() + float(shift)) * 1000)), os.urandom(16).hex()
            said = "rgpu control 1\n%s\nGET\n/v1/leases\n%s" % (
                server,
                hashlib.sha256(b"").hexdigest(),
            )
            proof = hmac.new(
                key.read(), ("%s\n%s\n%s" % (stamp, nonce, said)).encode(), hashlib.sha256
            ).hexdigest()
            out.write("RGPU-KEY %s %s %s" % (stamp, nonce, proof))
    with open(file) as kept:
        request = urllib.request.Request(
            "http://127.0.0.1:%s/v1/leases" % port, headers={"Authorization": kept.read()}
        )
    try:
        print(urllib.request.urlopen(request, timeout=10).status)
    except urllib.error.HTTPError as refused:
        print(refused.code, json.load(refused)["error"]["text"])
