# SPDX-License-Identifier: Apache-2.0
"""Draws what calls and copies cost beside raw TCP and memcpy, as SVG, from a run of
t/bench/transport.bench."""
import math

WIDTH, ROW, TOP = 900, 19, 48
NAMES, BARS, GAP = 230, 190, 60  # pixels: names of calls, their bars, between the halves
COLOURS = {"tcp": "#1b6ca8", "shm": "#3a7d44", "raw": "#888888"}
LEAST, MOST = 0.01, 100.0  # us
CALLS = (
    ("4-byte copy to the host", "sync.dtoh_4B.p50", 1),
    ("... 99th percentile", "sync.dtoh_4B.p99", 1),
    ("launch and stream sync", "sync.launch_then_stream_sync.p50", 1),
    ("... 99th percentile", "sync.launch_then_stream_sync.p99", 1),
    ("50 launches, 2 records, 2 copies", "mix.with_sync_dtoh", 1e6),
    ("alloc and free", "alloc.cuMemAlloc_Free_1MiB", 1e6),
    ("launch, as its caller sees it", "launch.1stream.caller_p50", 1),
    ("query of a done event", "query.cuEventQuery_done", 1e-3),
    ("sync of an idle stream", "query.cuStreamSynchronize_idle", 1e-3),
)
SIZES = (
    ("4KiB", 4 << 10),
    ("64KiB", 64 << 10),
    ("1MiB", 1 << 20),
    ("64MiB", 64 << 20),
    ("256MiB", 256 << 20),
)


def text(x, y, words, anchor="start", colour="#222"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


def line(x1, y1, x2, y2, colour, more=""):
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" {more}/>'
    )


def microseconds(figures, key, factor):
    """Rates are turned round: 1e6 by the rate."""
    if key not in figures:
        return None
    return factor / figures[key] if factor == 1e6 else figures[key] * factor


def calls(tcp, shm, round_trip):
    x = lambda us: NAMES + BARS * (math.log10(min(max(us, LEAST), MOST)) - math.log10(LEAST)) / (
        math.log10(MOST) - math.log10(LEAST)
    )
    height = TOP + ROW * len(CALLS)
    out = [text(NAMES, 20, "a call, in us")]
    for us in (0.01, 0.1, 1, 10, 100):
        out += [
            line(x(us), TOP - 8, x(us), height, "#ddd"),
            text(x(us), TOP - 12, f"{us:g}", "middle"),
        ]
    for n, (name, key, factor) in enumerate(CALLS):
        y = TOP + ROW * n
        out.append(text(NAMES - 8, y + 11, name, "end"))
        for place, (way, figures) in enumerate((("tcp", tcp), ("shm", shm))):
            us = microseconds(figures, key, factor)
            if us is not None:
                out.append(
                    f'<rect x="{NAMES}" y="{y + 1 + 7 * place}" width="{x(us) - NAMES:.1f}" '
                    f'height="6" fill="{COLOURS[way]}"/>'
                )
    out += [
        line(
            x(round_trip),
            TOP - 8,
            x(round_trip),
            height,
            COLOURS["raw"],
            'stroke-dasharray="4 3" stroke-width="1.5"',
        ),
        text(x(round_trip), height + 14, "a round trip of raw TCP", "end", COLOURS["raw"]),
    ]
    return out, height + 20


def copies(tcp, shm, stream, memcpy, height):
    left, right, bottom = NAMES + BARS + GAP, WIDTH - 16, height - 36
    most = 1.1 * max(
        [stream, memcpy]
        + [
            f[k]
            for f in (tcp, shm)
            for k in f
            if k.startswith("bw.") and not k.endswith("zeros") and k.split(".")[-1] in dict(SIZES)
        ]
    )
    x = lambda size: left + (right - left) * (math.log2(size) - 12) / (28 - 12)
    y = lambda rate: bottom - (bottom - TOP) * rate / most
    out = [text(left, 20, "a copy from or to pageable memory, in GB/s, by its bytes")]
    for rate in range(0, int(most) + 1, 5):
        out += [
            line(left, y(rate), right, y(rate), "#ddd"),
            text(left - 6, y(rate) + 4, str(rate), "end"),
        ]
    for name, size in SIZES:
        out.append(text(x(size), bottom + 15, name.removesuffix("iB"), "middle"))
    for rate, words, below in ((stream, "raw TCP", 13), (memcpy, "memcpy of 64 MiB", -4)):
        out += [
            line(
                left,
                y(rate),
                right,
                y(rate),
                COLOURS["raw"],
                'stroke-dasharray="4 3" stroke-width="1.5"',
            ),
            text(left + 165, y(rate) + below, words, "middle", COLOURS["raw"]),
        ]
    for way, figures in (("tcp", tcp), ("shm", shm)):
        for direction, dash in (("htod", ""), ("dtoh", 'stroke-dasharray="2 2"')):
            points = [
                (x(size), y(figures[f"bw.{direction}.pageable.{name}"]))
                for name, size in SIZES
                if f"bw.{direction}.pageable.{name}" in figures
            ]
            out.append(
                f'<polyline points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in points)}" fill="none" '
                f'stroke="{COLOURS[way]}" stroke-width="1.8" {dash}/>'
            )
    return out


def draw(path, tcp, shm, raw):
    left, height = calls(tcp, shm, raw["tcp.rtt_64B.p50"])
    key = height + 10
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height + 24}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height + 24}" fill="white"/>',
        *left,
        *copies(tcp, shm, raw["tcp.stream_1MiB"], raw["mem.memcpy_64MiB"], height),
    ]
    at = 8
    for colour, dash, words, width in (
        ("tcp", "", "over TCP (to the device)", 190),
        ("tcp", "2 2", "to the host", 120),
        ("shm", "", "through shared memory", 195),
        ("shm", "2 2", "to the host", 120),
    ):
        out += [
            line(
                at,
                key,
                at + 26,
                key,
                COLOURS[colour],
                f'stroke-width="3" stroke-dasharray="{dash}"',
            ),
            text(at + 32, key + 4, words),
        ]
        at += width
    out.append("</svg>")
    with open(path, "w") as file:
        file.write("\n".join(out) + "\n")
