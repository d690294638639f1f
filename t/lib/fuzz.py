# SPDX-License-Identifier: Apache-2.0
"""What a stranger may send, made by a deterministic generator: the same bytes in each run.

fuzz.py control PORT ROUNDS [closed]
                                  requests to the control port: methods, paths, headers,
                                  credentials, JSON; prints how many of each status. closed: only
                                  health and metrics may be served
fuzz.py hello PORT ROUNDS LEASE SECRET_HEX
                                  what comes instead of a hello to the data port, and behind a good
                                  one
fuzz.py snapshot PORT LEASE SECRET_HEX
                                  prints a worker's snapshot in hex: RGPU_FUZZ_SNAPSHOT for "client"
fuzz.py flood PORT SECONDS PID    requests as large and as slow as they get; prints the most memory
                                  that PID had, in KiB
fuzz.py client LIBCUDA ROUNDS     a server that says nonsense to libcuda.so.1: the handshake, the
                                  snapshot, what follows
fuzz.py lease LIBCUDA ROUNDS      lease files
fuzz.py config RGPU ROUNDS FILE   rgpu.conf, starting from FILE

Exit status: 0 nothing fell over, 1 something did (it is said what).
"""
import contextlib
import ctypes
import json
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import handshake

dice = random.Random(20261121)
NASTY = [
    b"\0",
    b"\xff\xfe",
    b"\xc3\x28",
    b"%00",
    b"%n%s",
    b"../" * 40,
    b"A" * 5000,
    b"'\"\\",
    b"\r\n",
    b"{",
    b"[" * 3000,
    b"1e999",
    b"-1",
    b"18446744073709551616",
    b"4294967296",
    b"NaN",
    b"null",
    b"true",
    b"\xf0\x9f\x92\xa9",
    b"0x10",
    b" ",
    b"",
]
METHODS = [
    b"GET",
    b"POST",
    b"DELETE",
    b"PUT",
    b"HEAD",
    b"OPTIONS",
    b"PATCH",
    b"CONNECT",
    b"TRACE",
    b"get",
    b"",
    b"G" * 300,
    b"PRI",
]
ID = b"0123456789abcdef0123456789abcdef"
TARGETS = [
    b"/v1/offers",
    b"/v1/offers/" + ID,
    b"/v1/offers/" + ID + b"/accept",
    b"/v1/offers/" + ID + b"/accept?gpus=2",
    b"/v1/leases",
    b"/v1/leases/" + ID,
    b"/v1/leases/" + ID + b"/renew",
    b"/v1/leases?job=1&node=x&secrets=1",
    b"/v1/drain",
    b"/v1/resume",
    b"/v1/lends",
    b"/v1/lends/" + ID,
    b"/v1/inventory",
    b"/v1/sharing",
    b"/v1/health",
    b"/metrics",
    b"/",
    b"*",
    b"http://x/v1/health",
    b"/v1/health?" + b"a=b&" * 100,
]
OWNER = {"uid": 0, "user": "x", "host": "here", "pid": 1}
BODIES = [
    {"gpus": 1, "owner": OWNER},
    {"gpus": 2, "share": 30, "most": 100, "memory": 1 << 20, "term_ms": 1000, "owner": OWNER},
    {
        "gpus": 1,
        "owner": {"uid": 0, "job": "1", "node": "n", "qos": "q"},
        "wanted": {
            "names": ["a"],
            "uuids": ["GPU-1"],
            "memory": 1,
            "compute_capability": 80,
            "cuda": 12000,
            "driver": "570.86.10",
        },
    },
    {"gpus": 3, "span": "5a", "owner": OWNER},
    {"gpus": ["0"], "grace_ms": 0, "owner": OWNER},
    {"gpu": "0", "reason": "x"},
    {},
    {"gpu": ""},
]


def mutated(data, most=6):
    """Bytes with a few things changed, cut, doubled or put in."""
    data = bytearray(data)
    for _ in range(dice.randint(1, most)):
        at = dice.randint(0, len(data))
        kind = dice.randint(0, 5)
        if kind == 0 and data:
            data[at % len(data)] = dice.randint(0, 255)
        elif kind == 1:
            data[at:at] = dice.choice(NASTY)
        elif kind == 2:
            del data[at : at + dice.randint(1, 20)]
        elif kind == 3:
            data[at:at] = data[at : at + dice.randint(1, 60)]
        elif kind == 4 and data:
            data[at % len(data)] ^= 1 << dice.randint(0, 7)
        else:
            end = min(len(data), at + 4)
            data[at:end] = struct.pack(
                "<I", dice.choice([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 20])
            )[: end - at]
    return bytes(data)


def value():
    kind = dice.randint(0, 9)
    if kind < 4:
        return dice.choice(
            [
                0,
                -1,
                1,
                100,
                101,
                1024,
                1025,
                2**31,
                2**32,
                2**63,
                2**64,
                -(2**63),
                1e308,
                -0.0,
                0.5,
                True,
                False,
                None,
            ]
        )
    if kind < 7:
        return dice.choice(NASTY).decode("latin1")
    if kind == 7:
        return [value() for _ in range(dice.randint(0, 4))]
    if kind == 8:
        return {"x" * dice.randint(0, 9): value() for _ in range(dice.randint(0, 4))}
    return [[]] * dice.randint(0, 50)


def body():
    """JSON of the right shape with a wrong value in it, or not JSON at all."""
    kind = dice.randint(0, 3)
    chosen = json.loads(json.dumps(dice.choice(BODIES)))
    if kind == 0:
        return mutated(json.dumps(chosen).encode())
    if kind == 1:
        return dice.choice(
            [
                b"[" * 30000,
                b"{\"a\":" * 9000,
                b"\"" + b"x" * 60000,
                b"1" * 60000,
                dice.choice(NASTY),
                dice.randbytes(300),
            ]
        )
    place = chosen
    while isinstance(place, dict) and place:
        key = dice.choice(list(place))
        if isinstance(place[key], dict) and dice.random() < 0.7:
            place = place[key]
            continue
        place[key] = value()
        break
    if dice.random() < 0.3:
        chosen[dice.choice(["gpus", "share", "owner", "uid", "wanted", "\0", "x"])] = value()
    return json.dumps(chosen).encode()


def request():
    method, target, content = dice.choice(METHODS[:3]), dice.choice(TARGETS), body()
    if dice.random() < 0.15:
        method = dice.choice(METHODS)
    if dice.random() < 0.2:
        target = mutated(target)
    headers = [b"Host: x"]
    if dice.random() < 0.3:
        key = b"RGPU-KEY %d %s %s" % (
            int(time.time() * 1000),
            os.urandom(16).hex().encode(),
            b"0" * 64,
        )
        headers.append(
            b"Authorization: "
            + dice.choice(
                [mutated(key), b"MUNGE " + mutated(b"MUNGE:AwQDAACdOmu6:"), dice.choice(NASTY), key]
            )
        )
    for _ in range(dice.choice([0, 0, 0, 3, 200])):
        headers.append(
            dice.choice(
                [
                    b"X-A: ",
                    b"Range: bytes=",
                    b"Content-Encoding: gzip",
                    b"Accept-Encoding: ",
                    b"Transfer-Encoding: chunked",
                    b"Connection: ",
                    b"Expect: 100-continue",
                    b"Content-Type: multipart/form-data; boundary=",
                    b"Cookie: ",
                ]
            )
            + dice.choice(NASTY)
        )
    length = dice.choice([len(content)] * 8 + [0, 5, len(content) + 10, 10**6, 10**18, -1])
    headers.append(b"Content-Length: %d" % length)
    line = (
        method
        + b" "
        + target
        + b" "
        + dice.choice([b"HTTP/1.1"] * 9 + [b"HTTP/1.0", b"HTTP/9.9", b""])
    )
    return line + b"\r\n" + b"\r\n".join(headers) + b"\r\n\r\n" + content


def exchange(port, data, patience=3.0):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
        s.settimeout(patience)
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            answer = b""
            while part := s.recv(65536):
                answer += part
            return answer
        except TimeoutError:
            return b"TIMEOUT"
        except OSError:
            return b"RESET"


def control(port, rounds, closed=None):
    count = {}
    for _ in range(int(rounds)):
        sent = request()
        answer = exchange(int(port), sent)
        status = (
            answer.split(b" ")[1].decode("latin1")
            if answer.startswith(b"HTTP/")
            else answer[:7].decode("latin1") or "closed"
        )
        count[status] = count.get(status, 0) + 1
        if status.startswith("5") and status not in ("501", "503", "505") or status == "TIMEOUT":
            print("answer", status, answer[:300], "to", sent[:600])
            return 1
        line = sent.split(b"\r\n")[0]
        if closed and status == "200" and b"/v1/health" not in line and b"/metrics" not in line:
            print("served without a credential:", sent[:600])
            return 1
    print(" ".join("%s:%d" % pair for pair in sorted(count.items())))
    return 0


def snapshot(port, lease, secret):
    with handshake.opened(port, lease.encode(), bytes.fromhex(secret))[0] as s:
        size = struct.unpack("<IHHII", s.recv(16, socket.MSG_WAITALL))[0]
        print(s.recv(size, socket.MSG_WAITALL).hex())
    return 0


def hello(port, rounds, lease, secret):
    lease, secret = lease.encode(), bytes.fromhex(secret)
    accepted = 0
    for i in range(int(rounds)):
        with socket.create_connection(("127.0.0.1", int(port)), timeout=10) as s:
            theirs = s.recv(40, socket.MSG_WAITALL)
            if len(theirs) != 40:
                print("no hello")
                return 1
            good = handshake.client_hello(secret, theirs, lease, digest=dice.randrange(2**64))
            behind = dice.randint(0, 3) == 0
            data = good + dice.randbytes(dice.randint(0, 4000)) if behind else mutated(good, 3)
            try:
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
                answer = s.recv(192, socket.MSG_WAITALL)
            except OSError:
                continue
            if len(answer) == 192 and answer[4] & 1:
                accepted += 1
                if data[:216] != good:
                    print(
                        "accepted with bytes changed at",
                        [i for i in range(216) if data[i] != good[i]],
                    )
                    return 1
    print("accepted", accepted)
    return 0


def rss(pid):
    with open("/proc/%s/status" % pid) as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def flood(port, seconds, pid):
    """As many connections as may be, each as much trouble as it can."""
    end, most = time.monotonic() + float(seconds), 0
    stop = threading.Event()

    def trouble(kind):
        while not stop.is_set():
            try:
                with socket.create_connection(("127.0.0.1", int(port)), timeout=5) as s:
                    s.settimeout(2)
                    if kind == 0:  # headers without end
                        s.sendall(b"GET /v1/health HTTP/1.1\r\n")
                        for _ in range(2000):
                            s.sendall(b"X-%d: %s\r\n" % (dice.randint(0, 9999), b"y" * 400))
                    elif kind == 1:  # a body without end
                        s.sendall(
                            b"POST /v1/offers HTTP/1.1\r\nHost: x\r\n"
                            b"Content-Length: 4000000000\r\n\r\n"
                        )
                        for _ in range(2000):
                            s.sendall(b"z" * 4096)
                    elif kind == 2:  # chunks without end
                        s.sendall(
                            b"POST /v1/offers HTTP/1.1\r\nHost: x\r\n"
                            b"Transfer-Encoding: chunked\r\n\r\n"
                        )
                        for _ in range(2000):
                            s.sendall(b"1000\r\n" + b"z" * 4096 + b"\r\n")
                    elif kind == 3:  # answers that nobody reads
                        for _ in range(3000):
                            s.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
                    elif kind == 4:  # offers, up to the limit and beyond
                        for _ in range(50):
                            exchange(
                                int(port),
                                b"POST /v1/offers HTTP/1.1\r\nHost: x\r\n"
                                b"Content-Length: %d\r\n\r\n%s"
                                % (len(json.dumps(BODIES[1])), json.dumps(BODIES[1]).encode()),
                            )
                    else:  # a line without end
                        for _ in range(2000):
                            s.sendall(b"A" * 4096)
            except OSError:
                pass

    threads = [threading.Thread(target=trouble, args=(i % 6,), daemon=True) for i in range(24)]
    for thread in threads:
        thread.start()
    while time.monotonic() < end:
        most = max(most, rss(pid))
        select.select([], [], [], 0.05)
    stop.set()
    for thread in threads:
        thread.join(10)
    print(most)
    return 0


def in_child(work, limit=20):
    """The wait status of a process that does it; None when it does not end."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        signal.alarm(limit)
        os.dup2(os.open("/dev/null", os.O_WRONLY), 2)
        try:
            work()
        except BaseException:
            os._exit(99)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def cuda(library):
    lib = ctypes.CDLL(library)
    count = ctypes.c_int()
    if lib.cuInit(0) == 0:
        lib.cuDeviceGetCount(ctypes.byref(count))
        name, handle = ctypes.create_string_buffer(256), ctypes.c_void_p()
        for device in range(min(count.value, 8)):
            lib.cuDeviceGetName(name, 256, device)
        lib.cuCtxCreate_v2(ctypes.byref(handle), 0, 0)
        lib.cuCtxSynchronize()


def client(library, rounds):
    secret, lease = b"s" * 32, b"0123456789abcdef"
    listening = socket.create_server(("127.0.0.1", 0))
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(
            {
                "version": 1,
                "servers": [
                    {
                        "name": "f",
                        "address": "127.0.0.1:%d" % listening.getsockname()[1],
                        "lease": lease.decode(),
                        "secret": secret.hex(),
                        "gpus": [],
                    }
                ],
            },
            file,
        )
        file.flush()
        os.environ["RGPU_LEASE"] = file.name
        # The worker's snapshot is what RGPU_FUZZ_SNAPSHOT holds, as it was recorded; else zeros.
        recorded = bytes.fromhex(os.environ.get("RGPU_FUZZ_SNAPSHOT", "")) or bytes(400)

        # Who loses the connection tries again, as a server may be restarting, until somebody
        # answers who is none.
        def serve(over, kind, first, rest):
            nonsense(kind, first, rest)
            while not over.is_set():
                with listening.accept()[0] as s, contextlib.suppress(OSError):
                    s.sendall(b"HTTP/1.1 400 Bad Request\r\n" * 10)

        def nonsense(kind, first, rest):
            s, _ = listening.accept()
            with s:
                s.settimeout(5)
                try:
                    ours = handshake.server_hello()
                    s.sendall(first if kind == 0 else ours)
                    theirs = s.recv(216, socket.MSG_WAITALL)
                    if kind == 0 or len(theirs) != 216:
                        return
                    verdict = handshake.verdict(secret, ours, theirs, 1)
                    if kind == 1:
                        s.sendall(rest)
                        return
                    s.sendall(verdict + rest)
                    s.recv(65536)
                    s.sendall(dice.randbytes(200))
                except OSError:
                    pass

        for i in range(int(rounds)):
            kind = dice.choice([0, 1, 2, 2, 2, 2, 2, 2])
            first = mutated(handshake.server_hello(), 3)
            body = mutated(recorded, 4)
            header = struct.pack(
                "<IHHII",
                dice.choice([len(body)] * 6 + [0, 1 << 20, 0xFFFFFFFF]),
                dice.choice([4] * 9 + [1]),
                2,
                0,
                0,
            )
            rest = (
                mutated(struct.pack("<4sI32s152s", b"RGPU", 1, bytes(32), b""), 3)
                if kind == 1
                else header + body
            )
            over = threading.Event()
            thread = threading.Thread(target=serve, args=(over, kind, first, rest), daemon=True)
            thread.start()
            status = in_child(lambda: cuda(library), 25)
            over.set()
            socket.create_connection(listening.getsockname()).close()
            thread.join(10)
            if os.WIFSIGNALED(status):
                print(
                    "round", i, "kind", kind, "signal", os.WTERMSIG(status), "by", rest[:400].hex()
                )
                return 1
    print("survived", rounds)
    return 0


def lease(library, rounds):
    good = json.dumps(
        {
            "version": 1,
            "job": "17",
            "servers": [
                {
                    "name": "g",
                    "address": "127.0.0.1:1",
                    "lease": "5d41",
                    "secret": "00" * 32,
                    "gpus": [
                        {"uuid": "GPU-1", "name": "x", "share": 100, "most": 100, "memory": 1}
                    ],
                }
            ],
        }
    ).encode()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        os.environ["RGPU_LEASE"] = file.name
        for i in range(int(rounds)):
            data = (
                mutated(good)
                if i % 8
                else dice.choice(
                    [
                        b"",
                        b"[" * 100000,
                        b"{}",
                        b"\0" * 100,
                        b'{"servers": 1}',
                        b'{"servers": [1, null, []]}',
                    ]
                )
            )
            with open(file.name, "wb") as out:
                out.write(data)
            status = in_child(lambda: cuda(library), 25)
            if os.WIFSIGNALED(status):
                print("round", i, "signal", os.WTERMSIG(status), "by", data[:300])
                return 1
    print("survived", rounds)
    return 0


def config(rgpu, rounds, file):
    good = open(file, "rb").read()
    told = 0
    with tempfile.NamedTemporaryFile(suffix=".conf") as out:
        for i in range(int(rounds)):
            with open(out.name, "wb") as text:
                text.write(mutated(good, 4) if i % 10 else dice.choice(NASTY))
            done = subprocess.run(
                [rgpu, "--config", out.name, "config"], capture_output=True, timeout=20
            )
            if done.returncode not in (0, 1, 2, 125) or done.returncode and not done.stderr:
                print(
                    "round",
                    i,
                    "status",
                    done.returncode,
                    done.stderr[:300],
                    open(out.name, "rb").read()[:300],
                )
                return 1
            told += done.returncode != 0
    print("refused %d of %s" % (told, rounds))
    return 0


sys.exit(globals()[sys.argv[1]](*sys.argv[2:]))
