#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds driver calls by name where the table of calls should speak.

    call_names.py [ROOT]

Reads the names from ROOT/src/calls/table and the C++ files of the client and the server. A call may
be named where its own handler is written, and where code uses it and says so: DRIVER(cuX),
REAL(cuX) or BENEATH(cuX) in the worker, CallId::cuX as an argument, own::cuX and rules::cuX.
Prints each other name, and each place that tells calls apart by comparing them or their names:
such a fact belongs into the call's line. Exit status 1: there are some.
"""

import os
import re
import sys

FOLDERS = ('interpose', 'worker', 'serverd', 'rgpud', 'wire', 'net')
CALL = r'(?:\w+::)*CallId::cu\w+'
# A handler's definition; one made by a macro has ## in its name.
DEFINED = re.compile(
    r'^[ \t]*(?:CUresult|Result<void>|Place)\s+(?:\w+::)*(cu\w+?)(?:##\w*)*\(', re.M
)
SAID = re.compile(
    rf'\b(?:DRIVER|REAL|BENEATH)\(cu\w+(?:##\w+)*\)|{CALL}(?:##\w+)*|\b(?:own|rules)::cu\w+'
)
TOLD_APART = re.compile(
    rf'[=!]=\s*{CALL}|{CALL}\s*[=!]=|\bcase\s+{CALL}|\busing\s+enum\s[^;]*\bCallId\b'
    r'|(?:starts_with|ends_with|find|[=!]=)\s*\(?\s*"(?:cu[A-Z]|_pt[sd][sz])[^"]*"'
)


def names(root):
    folder = os.path.join(root, 'src/calls/table')
    for file in sorted(os.listdir(folder)):
        with open(os.path.join(folder, file), encoding='utf-8') as text:
            yield from re.findall(r'^(?:CALL|NONE)\w*\((cu\w+),', text.read(), re.M)


def sources(root):
    for top in FOLDERS:
        for folder, _, files in os.walk(os.path.join(root, 'src', top)):
            for file in sorted(files):
                if file.endswith(('.cc', '.h')):
                    yield os.path.join(folder, file)


def blank(match):
    """Lines keep their numbers."""
    return re.sub(r'[^\n]', ' ', match[0])


def findings(text, calls):
    """(offset, what) of each name that should not be there."""
    code = re.sub(r'/\*.*?\*/|//[^\n]*', blank, text, flags=re.S)
    for found in TOLD_APART.finditer(code):
        yield found.start(), 'tells calls apart: ' + ' '.join(found[0].split())
    handlers = set(DEFINED.findall(code))
    code = re.sub(r'"(?:\\.|[^"\\\n])*"', blank, code)
    code = SAID.sub(blank, code)
    for found in re.finditer(r'\bcu[A-Z]\w+', code):
        if found[0] in calls and found[0] not in handlers:
            yield found.start(), found[0]


def main(arguments):
    root = arguments[0] if arguments else '.'
    calls = set(names(root))
    if len(calls) < 100:
        print(f'{root}/src/calls/table: no table', file=sys.stderr)
        return 2
    count = 0
    for file in sources(root):
        with open(file, encoding='utf-8') as source:
            text = source.read()
        for offset, what in sorted(findings(text, calls)):
            line = text.count('\n', 0, offset) + 1
            print(f'{os.path.relpath(file, root)}:{line}: {what}')
            count += 1
    return 1 if count else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
