#!/bin/bash
# The control port while strangers hold connections open and say little: whoever asks properly is
# answered at once.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

rgpud gpu1
server=$pid
cat > "$T/flood.py" <<'EOF'
import select, socket, sys, time
port, count = int(sys.argv[1]), int(sys.argv[2])
parts = [b"", b"GET /v1/inv", b"POST /v1/offers HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n{\"gpus\"", b"G"]
held = []
for i in range(count):
    s = socket.create_connection(("127.0.0.1", port), timeout=5)
    s.sendall(parts[i % len(parts)])
    held.append(s)
def ask(s):
    s.sendall(b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n")
    data = b""
    while b"\r\n\r\n" not in data or b"ok" not in data:
        part = s.recv(4096)
        if not part:
            return False
        data += part
    return b" 200 " in data
slowest = 0
for i in range(20):
    begin = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
        good = ask(s)
    slowest = max(slowest, time.monotonic() - begin)
    if not good:
        print("refused")
        sys.exit(1)
print("slowest %d ms" % (slowest * 1000))
# Two requests in one packet, and one byte by byte: both are answered.
with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
    s.sendall(b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
    data = b""
    while data.count(b" 200 ") < 2:
        part = s.recv(4096)
        if not part:
            break
        data += part
    print("two in one packet:", data.count(b" 200 "))
with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in b"GET /v1/health HTTP/1.1\r\nHost: x\r\n":
        s.sendall(bytes([byte]))
    s.sendall(b"\r\n")
    print("byte by byte:", b" 200 " in s.recv(4096))
# All of those that said half are closed.
poll, open_ones, end = select.poll(), {s.fileno(): s for s in held}, time.monotonic() + 15
for fd in open_ones:
    poll.register(fd, select.POLLIN)
while open_ones and time.monotonic() < end:
    for fd, _ in poll.poll(1000):
        try:
            if open_ones[fd].recv(4096):
                continue
        except OSError:
            pass
        poll.unregister(fd)
        del open_ones[fd]
print("still open:", len(open_ones))
EOF

try 60 python3 "$T/flood.py" "$control" 300
is "$rc" 0 "300 half-sent requests are held" || diag "$err"
slowest=$(sed -n 's/^slowest \([0-9]*\) ms/\1/p' <<< "$out")
ok "... and the next is answered at once: after $slowest ms" test "$slowest" -lt 1000
like "$out" 'two in one packet: 2' "two requests in one packet are both answered"
like "$out" 'byte by byte: True' "so is one that comes byte by byte"
like "$out" 'still open: 0' "what is half sent for too long is closed"
try 60 python3 "$T/flood.py" "$control" 1100
is "$rc" 0 "past the limit of connections the oldest make room, and the next is answered"
healthy() { api GET /v1/health && [ "$code" = 200 ]; }
ok "... and rgpud serves when they have gone" wait_for 15 healthy
is "$(grep -c '^State:' "/proc/$server/status")" 1 "... the same process"
kill "$server"
ok "SIGTERM ends it" wait_for 5 tap_gone "$server"
done_testing
