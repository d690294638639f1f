#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What contrib/session-svg has drawn, line by line: session_lines.py SVG

Numbers, GPUs' UUIDs, progress bars and verdicts differ from run to run: they are masked. Exit
status 1: a line is not shown at a time of its own, later than the one before.
"""

import re
import sys
import xml.etree.ElementTree

SVG = '{http://www.w3.org/2000/svg}'


def masked(text):
    text = re.sub(r'GPU-[0-9a-f-]{36}', 'UUID', text)
    text = re.sub(r'\[[#.]+\]', 'BAR', text)
    text = re.sub(r'^verdict: .*', 'verdict: ...', text)
    return ' '.join(re.sub(r'\d+(\.\d+)*', '0', text).split())


def main(path):
    drawing = xml.etree.ElementTree.parse(path).getroot()
    style = ''.join(element.text for element in drawing.iter(f'{SVG}style'))
    shown = [
        float(part) for part in re.findall(r'@keyframes l\d+\{0%\{opacity:0\}([\d.]+)%', style)
    ]
    lines = [g for g in drawing.iter(f'{SVG}g') if re.fullmatch(r'l\d+', g.get('class', ''))]
    for line in lines:
        print(' '.join(masked(text.text) for text in line.iter(f'{SVG}text')))
    in_order = all(0 < one < other < 100 for one, other in zip(shown, shown[1:]))
    sys.exit(0 if in_order and len(shown) == len(lines) > 1 else 1)


if __name__ == '__main__':
    main(sys.argv[1])
