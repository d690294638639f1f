# SPDX-License-Identifier: Apache-2.0
"""Draws shares of a GPU over time as SVG, and prints each tenant's share as a bench's figures:

  plot_shares.py --begin T --seconds S [--plot FILE.svg] LABEL=FILE...     (files: t/cuda/tenant.cu)
"""
import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import shares  # noqa: E402

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 860, 360, 56, 24, 24, 96
COLOURS = ['#1b6ca8', '#d1495b', '#3a7d44', '#8e6c8a']
STEP, WINDOW = 0.1, 1.0


def x_of(t, seconds):
    return LEFT + (WIDTH - LEFT - RIGHT) * t / seconds


def y_of(percent):
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - percent / 100)


def curve(spans, begin, seconds):
    total = shares.Sum(shares.union(spans))
    t, points = WINDOW, []
    while t <= seconds + 1e-9:
        got = total.until(begin + t) - total.until(begin + t - WINDOW)
        points.append((t, 100 * got / WINDOW))
        t += STEP
    return points


def svg(tenants, begin, seconds):
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for percent in range(0, 101, 20):
        y = y_of(percent)
        out.append(
            f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>'
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{percent}%</text>'
        )
    for t in range(0, int(seconds) + 1, 5):
        x = x_of(t, seconds)
        out.append(
            f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{t} s</text>'
        )
    for n, (label, spans) in enumerate(tenants.items()):
        points = ' '.join(
            f'{x_of(t, seconds):.1f},{y_of(p):.1f}' for t, p in curve(spans, begin, seconds)
        )
        y = HEIGHT - BOTTOM + 42 + 17 * n
        out.append(
            f'<polyline points="{points}" fill="none" '
            f'stroke="{COLOURS[n % 4]}" stroke-width="1.6"/>'
            f'<line x1="{LEFT}" y1="{y - 4}" x2="{LEFT + 26}" y2="{y - 4}" '
            f'stroke="{COLOURS[n % 4]}" stroke-width="3"/>'
            f'<text x="{LEFT + 34}" y="{y}">{label}</text>'
        )
    out.append('</svg>')
    return '\n'.join(out) + '\n'


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--begin', type=float, required=True)
    p.add_argument('--seconds', type=float, required=True)
    p.add_argument('--plot')
    p.add_argument('tenants', nargs='+')
    a = p.parse_args()
    tenants = {name: shares.load(path) for name, path in (t.rsplit('=', 1) for t in a.tenants)}
    if a.plot:
        with open(a.plot, 'w') as f:
            f.write(svg(tenants, a.begin, a.seconds))
    for name, spans in tenants.items():
        got = shares.analyse({'t': spans}, a.begin, a.begin + a.seconds, 5)['t']['share']
        print(json.dumps({'name': f'share of {name}', 'value': round(got, 2), 'unit': '%'}))


if __name__ == '__main__':
    main()
