#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the sources' sizes and layout, for t/t0004-house.t.

    house.py CHECK [ROOT]

CHECK is one of:
  widths       lines beyond 100 characters
  files        files beyond 800 lines
  functions    functions beyond 80 lines (C++, CUDA, Python)
  headers      comment lines of all headers in src, in per cent of their lines
  repeats DIR  passages of six lines and more that stand in two places below DIR
  prose        paragraphs beyond 80 words and table cells beyond 25 words in documents,
               and names of files that the repository does not have
  programs     Python programs beyond five lines in shell scripts
Each prints one finding a line; nothing: all is well. Exit status 2: wrong use.
"""

import ast
import collections
import os
import re
import subprocess
import sys

MOST_COLUMNS = 100
MOST_FILE_LINES = 800
MOST_FUNCTION_LINES = 80
REPEATED_LINES = 6
MOST_PLACES = 8  # a passage that stands in more is boilerplate
MOST_PARAGRAPH_WORDS = 80
MOST_CELL_WORDS = 25
MOST_PROGRAM_LINES = 5

SOURCES = ('.cc', '.h', '.c', '.cu', '.py', '.sh', '.t', '.def')
CXX = ('.cc', '.h', '.c', '.cu')


def tracked(*below):
    """The files that git tracks below the folders; without git, all that lie there."""
    listed = subprocess.run(['git', 'ls-files', '--', *below], capture_output=True, text=True)
    if listed.returncode == 0 and listed.stdout:
        return [path for path in listed.stdout.split('\n') if path and os.path.isfile(path)]
    return sorted(
        os.path.normpath(os.path.join(folder, name))
        for top in below
        for folder, _, names in os.walk(top)
        for name in names
    )


def lines_of(path):
    with open(path, encoding='utf-8', errors='replace') as file:
        return file.read().split('\n')


def is_python(path):
    return path.endswith('.py') or (
        '.' not in os.path.basename(path) and re.match(r'#!.*python', lines_of(path)[0])
    )


def widths():
    for path in tracked('src', 't'):
        if path.endswith(SOURCES) or is_python(path):
            for number, line in enumerate(lines_of(path), 1):
                if len(line) > MOST_COLUMNS:
                    yield f'{path}:{number}: {len(line)} columns'


def files():
    for path in tracked('src', 't'):
        if path.endswith(SOURCES) and len(lines_of(path)) > MOST_FILE_LINES:
            yield f'{path}: {len(lines_of(path))} lines'


def head_of(lines, number):
    """The name before the parameters whose body opens in that line."""
    head = ''
    for line in reversed(lines[: number - 1]):
        head = line + ' ' + head
        if re.match(r'\w', line) or not line.strip():
            break
    return (re.findall(r'([\w:~]+)\(', head) or ['?'])[0]


def cxx_functions(lines):
    """(name, length) of each body: clang-format gives its braces lines of their own."""
    opened = {}
    for number, line in enumerate(lines, 1):
        brace = re.fullmatch(r'( *)([{}])', line)
        if brace and brace[2] == '{':
            opened[brace[1]] = number
        elif brace and brace[1] in opened:
            start = opened.pop(brace[1])
            yield head_of(lines, start), number - start - 1


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.end_lineno - node.lineno


def functions():
    for path in tracked('src', 't'):
        if path.endswith(CXX):
            found = cxx_functions(lines_of(path))
        elif is_python(path):
            found = python_functions('\n'.join(lines_of(path)))
        else:
            continue
        for name, length in found:
            if length > MOST_FUNCTION_LINES:
                yield f'{path}: {name}: {length} lines'


def headers():
    comments = total = 0
    for path in tracked('src'):
        if path.endswith('.h'):
            lines = [line.strip() for line in lines_of(path) if line.strip()]
            total += len(lines)
            comments += sum('//' in line for line in lines)
    yield f'{100 * comments // max(total, 1)}'


def counted(lines):
    """(line number, text) of the lines that say something: no blanks, comments or includes."""
    for number, line in enumerate(lines, 1):
        text = ' '.join(line.split())
        if len(re.sub(r'\W', '', text)) > 1 and not re.match(r'//|#|import |from |\. "', text):
            yield number, text


def repeats(below):
    places = collections.defaultdict(list)
    for path in tracked(below):
        if path.endswith(SOURCES) and not path.endswith('.def'):
            said = list(counted(lines_of(path)))
            for first in range(len(said) - REPEATED_LINES + 1):
                window = tuple(text for _, text in said[first : first + REPEATED_LINES])
                places[window].append((path, said[first][0], first))
    pairs = collections.defaultdict(list)
    for found in places.values():
        if 1 < len(found) <= MOST_PLACES:
            for one, other in zip(found, found[1:]):
                pairs[one[0], other[0], other[2] - one[2]].append((one[2], one[1], other[1]))
    for (one, other, _), runs in sorted(pairs.items()):
        last = None
        for index, first, second in sorted(runs):
            if last is None or index > last + 1:
                yield f'{one}:{first} ~ {other}:{second}'
            last = index


def words(text):
    return len(re.findall(r'\S*\w\S*', text))


def paragraphs(lines):
    """(line number, text) of paragraphs and list items outside code and tables."""
    text, start, code = [], 0, False
    for number, line in enumerate(lines + [''], 1):
        fence = line.lstrip().startswith('```')
        breaks = not line.strip() or fence or re.match(r'\s*([-*] |\d+\. |#|\||>)', line)
        if breaks and text:
            yield start, ' '.join(text)
            text = []
        code ^= fence
        if line.strip() and not code and not fence and not line.startswith(('|', '#', '    ')):
            if not text:
                start = number
            text.append(line.strip())


# What a person's notes are called, or where they lie. Split, so that this file is none of those.
NOT_HERE = re.compile(r'\bDES' + r'IGN\b|FAC' + r'TS-[a-z]|STY' + r'LE\.md|/wo' + 'rk/')


def prose():
    for path in tracked('.'):
        if not path.endswith(('.md', '.h', '.cc', '.cu', '.c', '.def', '.py', '.sh', '.t')):
            continue
        lines = lines_of(path)
        for number, line in enumerate(lines, 1):
            if NOT_HERE.search(line):
                yield f'{path}:{number}: names a file that is not in the repository'
        if not path.endswith('.md'):
            continue
        for number, text in paragraphs(lines):
            if words(text) > MOST_PARAGRAPH_WORDS:
                yield f'{path}:{number}: a paragraph of {words(text)} words'
        for number, line in enumerate(lines, 1):
            if line.startswith('|') and not path.startswith('.'):
                longest = max((words(cell) for cell in line.split('|')), default=0)
                if longest > MOST_CELL_WORDS:
                    yield f'{path}:{number}: a table cell of {longest} words'


# A program in quotes after -c, or in a document that follows.
QUOTED = re.compile(r"""py\w*"?[^\n|;&]* -c (['"])(?P<text>.*?)(?<!\\)\1""", re.DOTALL)
FOLLOWING = re.compile(
    r"""(?:py\w*"? -|\.py)[^\n]*<<-?\s*['"]?(?P<end>\w+)['"]?[^\n]*\n"""
    r"""(?P<text>.*?)\n\t*(?P=end)\n""",
    re.DOTALL,
)


def programs():
    for path in tracked('t', 'contrib', 'etc'):
        if path.endswith('.py') or not re.match(r'#!.*sh\b', lines_of(path)[0]):
            continue
        text = '\n'.join(lines_of(path))
        for found in (*QUOTED.finditer(text), *FOLLOWING.finditer(text)):
            lines = len(found['text'].strip('\n').split('\n'))
            if lines > MOST_PROGRAM_LINES:
                start = text.count('\n', 0, found.start()) + 1
                yield f'{path}:{start}: a Python program of {lines} lines'


def main(arguments):
    checks = {
        'widths': widths,
        'files': files,
        'functions': functions,
        'headers': headers,
        'programs': programs,
        'prose': prose,
    }
    if len(arguments) == 2 and arguments[0] == 'repeats':
        found = repeats(arguments[1])
    elif len(arguments) == 1 and arguments[0] in checks:
        found = checks[arguments[0]]()
    else:
        sys.exit(__doc__)
    for line in found:
        print(line)


if __name__ == '__main__':
    main(sys.argv[1:])
