"""another_boot.py STATE_DIR BOOT: leases of this boot of the host become those of another one."""
import sqlite3
import sys

with sqlite3.connect(sys.argv[1] + '/leases.db') as db:
    for id, body in db.execute('SELECT id, body FROM lease').fetchall():
        assert sys.argv[2] in body
        db.execute(
            'UPDATE lease SET body = ? WHERE id = ?',
            (body.replace(sys.argv[2], 'another-boot'), id),
        )
