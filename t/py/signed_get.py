# SPDX-License-Identifier: Apache-2.0
"""signed_get.py KEY_FILE HOST PORT TARGET: a signed GET of server gpu2; prints the status, and what
a refusal says."""
import hashlib
import hmac
import os
import sys
import time
import urllib.error
import urllib.request

key, host, port, target = open(sys.argv[1], "rb").read(), *sys.argv[2:]
stamp, nonce = str(int(time.time() * 1000)), os.urandom(16).hex()
vouched = "rgpu control 1\ngpu2\nGET\n" + target + "\n" + hashlib.sha256(b"").hexdigest()
proof = hmac.new(key, (stamp + "\n" + nonce + "\n" + vouched).encode(), hashlib.sha256).hexdigest()
request = urllib.request.Request(
    f"http://{host}:{port}{target}", headers={"Authorization": f"RGPU-KEY {stamp} {nonce} {proof}"}
)
try:
    print(urllib.request.urlopen(request, timeout=20).status)
except urllib.error.HTTPError as refused:
    print(refused.code, refused.read().decode())
