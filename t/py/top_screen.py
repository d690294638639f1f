# SPDX-License-Identifier: Apache-2.0
"""top_screen.py ROWS COLUMNS VIEWS KEY COMMAND...: types KEY when it has seen so many views.

Prints the last whole one, and tells on stderr how the command ended, the terminal's modes before,
meanwhile and after, and how many views differed."""
import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time

rows, columns, views, key, *command = sys.argv[1:]
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", int(rows), int(columns), 0, 0))
    time.sleep(0.2)  # the modes before are looked at
    os.execv(command[0], command)
modes = lambda: "".join(
    n
    for n, bit in (("C", termios.ICANON), ("E", termios.ECHO), ("S", termios.ISIG))
    if termios.tcgetattr(terminal)[3] & bit
)
before, meanwhile, seen, typed, end = modes(), "", b"", False, time.monotonic() + 60
while time.monotonic() < end:
    if not select.select([terminal], [], [], 1)[0]:
        continue
    try:
        data = os.read(terminal, 65536)
    except OSError:
        break
    seen += data
    if not typed and seen.count(b"\x1b[H\x1b[J") > int(views):
        meanwhile, typed = modes(), True
        os.write(terminal, key.encode().decode("unicode_escape").encode())
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) if time.monotonic() < end else "none"
pages = seen.decode().replace("\r", "").split("\x1b[H\x1b[J")[1:]
print(pages[int(views) - 1], end="")
print(
    f"status {status} modes {before} {meanwhile} {modes()} views {len(set(pages[:int(views)]))}",
    file=sys.stderr,
)
