# SPDX-License-Identifier: Apache-2.0
"""Speaks to rgpu-spawner as doc/spawner.md has it, rightly and wrongly, and prints what comes of
each case.

spawner_client.py SOCKET UID POOL_LOW   (started as root, becomes UID first)
"""
import array
import errno
import os
import socket
import struct
import sys

path, uid, low = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
HELLO, GROUP, START, SIGNAL, REAP, END, LIST = range(1, 8)
ANSWER = struct.Struct("<iiiI64s16s")
KEY, NAME = b"a" * 64, b"b" * 16


def connect():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(10)
    s.connect(path)
    return s


def ask(s, packet, descriptors=()):
    rights = (
        [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        if descriptors
        else []
    )
    try:
        s.sendmsg([packet], rights)
        data, _, _, _ = s.recvmsg(4096, 256)
    except OSError:
        return "closed"
    if not data:
        return "closed"
    error, pid, _, _, _, _ = ANSWER.unpack(data[: ANSWER.size])
    return errno.errorcode.get(error, "done") if error or not pid else f"pid {pid}"


def request(
    what,
    key=KEY,
    name=NAME,
    signal=0,
    uid=0,
    gid=0,
    ids=(),
    devices=(),
    counts=None,
    environment=b"",
    claimed=None,
):
    id_count, device_count = counts or (len(ids), len(devices))
    return (
        struct.pack(
            "<Ii64s16sIIIII", what, signal, key, name, uid, gid, uid, id_count, device_count
        )
        + struct.pack("<64I", *(list(ids) + [0] * (64 - len(ids))))
        + b"".join(
            d.encode().ljust(32, b"\0")[:32] for d in list(devices) + [""] * (64 - len(devices))
        )
        + struct.pack("<I", len(environment) if claimed is None else claimed)
        + struct.pack("<QQ16Q", 0, 0, *[0] * 16)
        + environment
    )


def plain(what, signal=0, **others):
    return request(what, signal=signal, **others)


def group(uid, gid, **others):
    return request(GROUP, uid=uid, gid=gid, **others)


def start(environment=b"A=1\0", **others):
    return request(START, environment=environment, **others)


s = connect()
if ask(s, plain(HELLO)) == "closed":
    print("refused")
    sys.exit()
log = os.open("/dev/null", os.O_WRONLY)


def case(name, *args):
    global s
    got = ask(s, *args)
    print(f"{name}: {got}", flush=True)
    if got == "closed":
        s = connect()


case("garbage", os.urandom(100))
case("one byte", b"\1")
case("a large packet", bytes(100000))
case("no such request", plain(99))
case("a short group", group(low, low)[:-1])
case("descriptors with a group", group(low, low), [log])
case("root", group(0, 0))
case("a system account", group(999, 999))
case("uid -1", group(0xFFFFFFFF, low))
case("its own user", group(uid, uid))
case("group root", group(low + 1, 0))
case("group shadow", group(5000, 5000, ids=[42]))
case("another's group", group(low + 1, low + 1, ids=[5000]))
case("a device with slashes", group(low + 1, low + 1, devices=["../dev/vda"]))
case("a disk", group(low + 1, low + 1, devices=["vda"]))
case("kmsg", group(low + 1, low + 1, devices=["kmsg"]))
case("shm", group(low + 1, low + 1, devices=["shm"]))
case("a name without an end", group(low + 1, low + 1, devices=["n" * 32]))
case("too many devices", group(low + 1, low + 1, counts=(0, 65)))
case("too many groups", group(low + 1, low + 1, counts=(65, 0)))
case("a key that is a path", group(low + 1, low + 1, key=b"../" + b"a" * 61))
case("environment beyond the packet", group(low, low, claimed=1))
case("an environment of 4 GiB", start(claimed=0xFFFFFFFF), [log])
case("a group as a worker", plain(SIGNAL, 9, name=bytes(16)))
case("more environment than there is", start(claimed=5000), [log])
case("a worker of no group", start(), [log])
case("a group", group(low + 1, low + 1, devices=["null"]))
case("the same again, with more", group(low + 1, low + 1, devices=["zero"]))
case("the same of another user", group(low + 2, low + 2))
case("another of the same user", group(low + 1, low + 1, key=b"c" * 64))
case("a worker without stderr", start())
case("an environment without end", start(b"A=1"), [log])
case("an environment of nothing", start(b""), [log])
case("300 variables", start(b"A=1\0" * 300), [log])
case("another's name", start(name=b"/" * 16), [log])
case("SIGSTOP", plain(SIGNAL, 19))
case("a signal for nobody", plain(SIGNAL, 9))
case("a signal for the group itself", plain(SIGNAL, 9, name=bytes(16)))
case("the end of the group itself", plain(REAP, name=bytes(16)))
case("the end of half a key", plain(END, key=b"a" * 32 + bytes(32)))
got = ask(s, start(b"MARK=spawned\0"), [log])
print("a worker:", "started" if got.startswith("pid") else got, flush=True)
case("the same name", start(), [log])
if os.environ.get("STAY"):
    sys.stdin.read()
case("its end", plain(SIGNAL, 9))
while ask(s, plain(REAP)) == "EBUSY":
    pass
case("an end that was taken", plain(REAP))
while ask(s, plain(END)) == "EBUSY":
    pass
case("a group that has ended", plain(END))
