#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds who may include whom in src, as doc/architecture.md says it.

    includes.py [ROOT]

Reads two tables of ROOT/doc/architecture.md:
  | folder | builds | may include |     what a folder of src may include of others
  | folder | sub-folders, lowest first |    a sub-folder includes itself and those before it
Prints each include that neither allows, each folder that no table names, and each cycle of files
(a name's .h and .cc count as one). Exit status 1: there are some; 2: the tables cannot be read.
"""

import collections
import os
import re
import sys


def cells(line):
    return [cell.strip() for cell in line.strip().strip('|').split('|')]


def tables(text):
    """What each folder may include, and each folder's sub-folders in order."""
    allowed, order, reading = {}, {}, None
    for line in text.split('\n'):
        if not line.startswith('|'):
            reading = None
        elif re.match(r'\| folder \| builds \| may include', line):
            reading = allowed
        elif re.match(r'\| folder \| sub-folders, lowest first', line):
            reading = order
        elif reading is not None and not line.startswith('|--'):
            folder = cells(line)[0].strip('`').removeprefix('src/')
            names = re.sub(r'\(.*?\)|`', '', cells(line)[-1])
            found = [name.strip() for name in names.split(',')]
            reading[folder] = [name for name in found if name and name != '-']
    return allowed, order


def sources(root):
    for folder, _, names in os.walk(os.path.join(root, 'src')):
        for name in names:
            if name.endswith(('.cc', '.h', '.def')):
                yield os.path.relpath(os.path.join(folder, name), os.path.join(root, 'src'))


def includes(root):
    """(file, included file), both from src/."""
    for file in sorted(sources(root)):
        with open(os.path.join(root, 'src', file), encoding='utf-8') as text:
            for included in re.findall(r'^#\s*include "([^"]+)"', text.read(), re.M):
                if os.path.exists(os.path.join(root, 'src', included)):
                    yield file, included


def folder_of(file, allowed):
    """The longest folder of the table that holds the file."""
    parts = file.split('/')[:-1]
    for count in range(len(parts), 0, -1):
        if '/'.join(parts[:count]) in allowed:
            return '/'.join(parts[:count])
    return None


def wrong_folder(file, included, allowed):
    mine, other = folder_of(file, allowed), folder_of(included, allowed)
    if mine is None:
        return f'{file}: no table names its folder'
    grants = [
        grant
        for grant in allowed[mine]
        if included.startswith(grant + '/') or os.path.splitext(included)[0] == grant
    ]
    return None if mine == other or grants else f'{file}: may not include {included}'


def wrong_order(file, included, order):
    for folder, names in order.items():
        if not (file.startswith(folder + '/') and included.startswith(folder + '/')):
            continue
        places = []
        for path in (file, included):
            below = path[len(folder) + 1 :].split('/')
            # A file directly in the folder stands above all sub-folders.
            name = below[0] if len(below) > 1 else ''
            if name and name not in names:
                return f'{file}: no table names {folder}/{name}'
            places.append(names.index(name) if name else len(names))
        if places[1] > places[0]:
            return f'{file}: stands below {included}'
    return None


def cycles(edges):
    """Sets of names that include each other, by Tarjan's algorithm without recursion."""
    graph = collections.defaultdict(set)
    for file, included in edges:
        one, other = os.path.splitext(file)[0], os.path.splitext(included)[0]
        if one != other:
            graph[one].add(other)
    index, low, stack, on_stack = {}, {}, [], set()
    for start in list(graph):
        if start in index:
            continue
        work = [(start, iter(sorted(graph[start])))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        while work:
            node, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    found = stack[stack.index(node) :]
                    del stack[stack.index(node) :]
                    on_stack -= set(found)
                    if len(found) > 1:
                        yield sorted(found)
            elif following not in index:
                index[following] = low[following] = len(index)
                stack.append(following)
                on_stack.add(following)
                work.append((following, iter(sorted(graph.get(following, ())))))
            elif following in on_stack:
                low[node] = min(low[node], index[following])


def main(arguments):
    root = arguments[0] if arguments else '.'
    with open(os.path.join(root, 'doc/architecture.md'), encoding='utf-8') as page:
        allowed, order = tables(page.read())
    if not allowed:
        print('doc/architecture.md: no table of folders', file=sys.stderr)
        return 2
    edges = list(includes(root))
    wrong = [wrong_folder(*edge, allowed) or wrong_order(*edge, order) for edge in edges]
    wrong = [text for text in wrong if text]
    wrong += ['a cycle: ' + ', '.join(cycle) for cycle in cycles(edges)]
    for text in wrong:
        print(text)
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
