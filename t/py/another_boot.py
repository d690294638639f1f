# SPDX-License-Identifier: Apache-2.0
"""another_boot.py STATE_DIR BOOT: leases of this boot of the host become those of another one."""
import sqlite3
import sys

with sqlite3.connect(sys.argv[1] + "/leases.db") as db:
    changed = db.execute("UPDATE lease SET boot = 'another-boot' WHERE boot = ?", sys.argv[2:])
    assert changed.rowcount > 0
