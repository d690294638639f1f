# SPDX-License-Identifier: Apache-2.0
"""replay_request.py KEY_FILE PORT: signs one request and sends it twice, then for another target;
prints the statuses."""
import hashlib
import hmac
import os
import sys
import time
import urllib.error
import urllib.request

key, port = open(sys.argv[1], "rb").read(), sys.argv[2]
stamp, nonce = str(int(time.time() * 1000)), os.urandom(16).hex()
vouched = "rgpu control 1\ngpu1\nGET\n/v1/leases\n" + hashlib.sha256(b"").hexdigest()
proof = hmac.new(key, (stamp + "\n" + nonce + "\n" + vouched).encode(), hashlib.sha256).hexdigest()
for target in "/v1/leases", "/v1/leases", "/v1/inventory":
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{target}",
        headers={"Authorization": f"RGPU-KEY {stamp} {nonce} {proof}"},
    )
    try:
        print(urllib.request.urlopen(request).status, end=" ")
    except urllib.error.HTTPError as refused:
        print(refused.code, end=" ")
