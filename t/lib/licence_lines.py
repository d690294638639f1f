#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds the sources, scripts and tests that do not say their licence, for t/t0023-licences.t.

    licence_lines.py [--add]

Prints each file of git's that is not in EXEMPT and has no SPDX line among its first two lines.
With --add it puts that line there: below the line that names the interpreter, else at the top.
EXEMPT is the only list of files that need none. Exit status 2: wrong use.
"""

import fnmatch
import os
import subprocess
import sys

LINE = 'SPDX-License-Identifier: ' + 'Apache-2.0'

# Scripts are never exempt. A * matches folders, too.
EXEMPT = {
    'documents, which the LICENSE beside them covers': ('*.md', 'doc/*', 'LICENSE'),
    'files that become those of a site, and are read and changed there': (
        'etc/*',
        'contrib/ansible/inventory.example',
        'contrib/ansible/*.j2',
    ),
    'debian/: debian/copyright covers it': ('debian/*',),
    'data, and lists that a program writes or reads': (
        '*.csv.gz',
        '*.json',
        '*.list',
        '*.svg',
        '*.supp',
        '*.txt',
        't/fuzz/corpus/*',
        't/lib/house-exceptions',
    ),
    'settings of editors and tools': ('.*',),
}

SLASHES = ('.cc', '.js', '.h', '.c', '.cu', '.cuh', '.def', '.inc')


def is_script(lines):
    return lines[0].startswith('#!')


def exempt(path, lines):
    patterns = (pattern for group in EXEMPT.values() for pattern in group)
    return not is_script(lines) and any(fnmatch.fnmatchcase(path, p) for p in patterns)


def comment(path):
    if path.endswith(SLASHES):
        return f'// {LINE}'
    if path.endswith('.html'):
        return f'<!-- {LINE} -->'
    return f'/* {LINE} */' if path.endswith(('.map', '.css')) else f'# {LINE}'


def add(path, lines):
    with open(path, 'w', encoding='utf-8') as file:
        lines.insert(1 if is_script(lines) else 0, comment(path))
        file.write('\n'.join(lines))


def main(arguments):
    if arguments not in ([], ['--add']):
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    listed = subprocess.run(['git', 'ls-files', '-z'], check=True, capture_output=True, text=True)
    for path in filter(os.path.isfile, listed.stdout.split('\0')):
        with open(path, encoding='utf-8', errors='surrogateescape') as file:
            lines = file.read().split('\n')
        if comment(path) in lines[:2] or exempt(path, lines):
            continue
        if arguments:
            add(path, lines)
        else:
            print(path)


if __name__ == '__main__':
    main(sys.argv[1:])
