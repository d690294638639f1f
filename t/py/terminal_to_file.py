# SPDX-License-Identifier: Apache-2.0
"""terminal_to_file.py SCREEN ENOUGH COLUMNS COMMAND...: a terminal whose screen is a file.

Makes the file ENOUGH when the line about waiting has been there for two seconds."""
import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time

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
        if re.search(rb"waiting for GPUs \(([2-9]|[1-4][0-9])s,", seen) and not os.path.exists(
            enough
        ):
            open(enough, "w").close()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
