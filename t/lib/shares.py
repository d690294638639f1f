# SPDX-License-Identifier: Apache-2.0
"""What tenants of a shared GPU got, from what their kernels noted (t/cuda/tenant.cu).

  shares.py [--begin T] [--end T] [--window S] [--join MS] NAME=FILE...

  T is in seconds since the epoch.

Prints one JSON object: for each tenant its part of the time in percent ("share"), the least and the
most in any window of S seconds ("low", "high"), its longest break ("stall", seconds); for all
together "idle" (percent of the time in which no kernel ran), "overlap" (percent in which kernels of
two tenants ran). With --times FILE, a JSON list of times: "held", at how many of them no kernel
ran, and "wait", the longest time from one of these to the next kernel. With --join breaks of a
tenant of up to so many milliseconds count as its kernels: what launching takes on a machine that
has other things to do.
"""
import argparse
import array
import json


def load(path):
    numbers = array.array('Q')
    with open(path, 'rb') as f:
        numbers.frombytes(f.read())
    spans = sorted(zip(numbers[::2], numbers[1::2]))
    return [(a / 1e9, b / 1e9) for a, b in spans]


def union(spans, join=0.0):
    out = []
    for a, b in spans:
        if out and a <= out[-1][1] + join:
            out[-1][1] = max(out[-1][1], b)
        else:
            out.append([a, b])
    return out


def clip(spans, begin, end):
    return [(max(a, begin), min(b, end)) for a, b in spans if b > begin and a < end]


def length(spans):
    return sum(b - a for a, b in spans)


class Sum:
    """How much of the spans lies before a time."""

    def __init__(self, spans):
        self.spans = spans
        self.before = [0.0]
        for a, b in spans:
            self.before.append(self.before[-1] + b - a)

    def until(self, t):
        low, high = 0, len(self.spans)
        while low < high:
            mid = (low + high) // 2
            if self.spans[mid][0] < t:
                low = mid + 1
            else:
                high = mid
        if low == 0:
            return 0.0
        a, b = self.spans[low - 1]
        return self.before[low - 1] + min(b, t) - a


def analyse(tenants, begin, end, window):
    out = {}
    everything = []
    for name, spans in tenants.items():
        mine = union(clip(spans, begin, end))
        everything += mine
        total = Sum(mine)
        parts = []
        t = begin
        while t + window <= end + 1e-9:
            parts.append(100 * (total.until(t + window) - total.until(t)) / window)
            t += window / 50
        edges = [begin] + [x for span in mine for x in span] + [end]
        stall = max(edges[i + 1] - edges[i] for i in range(0, len(edges), 2))
        out[name] = {
            'share': 100 * length(mine) / (end - begin),
            'low': min(parts, default=0),
            'high': max(parts, default=0),
            'stall': stall,
            'kernels': len(clip(spans, begin, end)),
        }
    together = union(sorted(map(tuple, everything)))
    busy = length(together)
    out['idle'] = 100 * (1 - busy / (end - begin))
    out['overlap'] = 100 * (length(everything) - busy) / (end - begin)
    return out


def after(spans, times):
    """How long each of the times had to wait for a kernel; 0 where one ran."""
    waits = []
    for t in times:
        waits.append(min((max(0.0, a - t) for a, b in spans if b > t), default=float('inf')))
    return waits


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--begin', type=float)
    p.add_argument('--end', type=float)
    p.add_argument('--window', type=float, default=5)
    p.add_argument('--join', type=float, default=0)
    p.add_argument('--times')
    p.add_argument('tenants', nargs='+')
    a = p.parse_args()
    tenants = {
        name: union(load(path), a.join / 1000) if a.join else load(path)
        for name, path in (t.split('=', 1) for t in a.tenants)
    }
    spans = [s for t in tenants.values() for s in t]
    begin = a.begin if a.begin is not None else min(s[0] for s in spans)
    end = a.end if a.end is not None else max(s[1] for s in spans)
    out = analyse(tenants, begin, end, a.window)
    if a.times:
        with open(a.times) as f:
            waits = after(union(sorted(spans)), json.load(f))
        out['held'] = sum(w > 0 for w in waits)
        out['wait'] = max(waits)
    print(json.dumps(out))


if __name__ == '__main__':
    main()
