#!/bin/bash
# What someone at a terminal sees while rgpu run waits: one line that says for what, for how long,
# and a bar.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
rgpu=$build/bin/rgpu

rgpud gpu1
clients "gpu1=$control"
start holds "$rgpu" run -n 2 -- sh -c "while [ ! -e '$T/enough' ]; do sleep 0.1; done"
taken() { "$rgpu" list | grep -q '^0 of 2 GPUs free'; }
wait_for 10 taken

# A terminal whose screen is a file; the GPUs are given back when the line has been there for two
# seconds.
cat > "$T/terminal.py" <<'EOF'
import fcntl, os, pty, re, select, struct, sys, termios, time
screen, enough, columns, *command = sys.argv[1:]
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", 24, int(columns), 0, 0))
    os.execv(command[0], command)
seen, end = b"", time.monotonic() + 50
with open(screen, "wb") as file:
    while time.monotonic() < end:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            data = os.read(terminal, 4096)
        except OSError:
            break
        if not data:
            break
        seen += data
        file.write(data)
        if re.search(rb"waiting for GPUs \(([2-9]|[1-4][0-9])s,", seen) and not os.path.exists(enough):
            open(enough, "w").close()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
EOF
try 60 python3 "$T/terminal.py" "$T/screen" "$T/enough" 200 "$rgpu" run -n 1 --wait 50s -- echo mine
is "$rc" 0 "it waits, gets the GPU and runs the command" || diag "$err"
# Each time it is written anew: from the line's start, cleared first.
lines=$(tr -d '\r\n' < "$T/screen" | sed 's/\x1b\[K/\n/g')
like "$lines" 'rgpu: waiting for GPUs \([0-9]+s, at most 50s\) \[[#.]{20}\]: gpu1: 0 of its 2 GPUs have enough free now, 1 is wanted' \
    "a line says for what, for how long, and how much of the limit is over"
ok "it is written anew as the time goes on" [ "$(grep -o 'waiting for GPUs ([0-9]*s' <<< "$lines" | sort -u | wc -l)" -ge 2 ]
is "$(grep -c 'waiting.*waiting' <<< "$lines")" 0 "... each time cleared first"
is "$(tr -d '\r' < "$T/screen" | grep -c waiting)" 1 "... on the same line"
is "$(tail -n 1 <<< "$lines")" mine "it is gone when the command begins"

start holds "$rgpu" run -n 2 -- sh -c "while [ ! -e '$T/again' ]; do sleep 0.1; done"
wait_for 10 taken
try 60 python3 "$T/terminal.py" "$T/screen" "$T/again" 80 "$rgpu" run -n 1 --wait 50s -- echo mine
lines=$(tr -d '\r\n' < "$T/screen" | sed 's/\x1b\[K/\n/g')
ok "on a narrow terminal the line is cut" grep -qE 'waiting for GPUs \([0-9]+s, at most 50s\) \[[#.]{20}\]: gpu1.*\.\.\.$' <(echo "$lines")
is "$(awk 'length > 79' <<< "$lines")" "" "... so that it never wraps"
done_testing
