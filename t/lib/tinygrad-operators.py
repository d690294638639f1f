# SPDX-License-Identifier: Apache-2.0
"""Random operators of tinygrad on DEV=CUDA, each against numpy: shapes, types and values from a
seed.

    python tinygrad-operators.py SEED COUNT

Every case is one expression over one to three tensors. Prints what differs, with the case's number,
so that `SEED NUMBER:NUMBER` runs it alone; the last line counts.
"""
import sys

import ml_dtypes
import numpy as np
from tinygrad import Tensor, dtypes

FLOATS = ["float16", "bfloat16", "float32", "float64"]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTEGERS = SIGNED + UNSIGNED
EVERY = FLOATS + INTEGERS + ["bool"]
# Relative to the larger of 1 and the numbers that went in: the functions are chains of operations
# in the type itself.
CLOSE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-6}


def numpy_type(name):
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


class Case:
    def __init__(self, rng):
        self.rng = rng
        self.name = "?"

    def pick(self, of):
        return of[self.rng.integers(len(of))]

    def shape(self, most=3, size=17):
        return tuple(int(n) for n in self.rng.integers(1, size, self.rng.integers(1, most + 1)))

    def array(self, shape, kind, low=None, high=None):
        """Numbers that suit the type, with its ends now and then."""
        if kind == "bool":
            return self.rng.integers(0, 2, shape).astype(bool)
        if kind in FLOATS:
            return (
                self.rng.uniform(-4 if low is None else low, 4 if high is None else high, shape)
            ).astype(numpy_type(kind))
        ends = np.iinfo(kind)
        if low is None and high is None:
            a = self.rng.integers(ends.min, ends.max, shape, dtype=kind, endpoint=True)
            return np.where(self.rng.random(shape) < 0.5, a, (a.astype(np.int64) % 13).astype(kind))
        low = 0 if low is None or kind in UNSIGNED and low < 0 else low
        return self.rng.integers(low, high, shape).astype(kind)

    def tensor(self, a):
        if a.dtype == numpy_type("bfloat16"):
            return (
                Tensor(np.ascontiguousarray(a.astype(np.float32))).cast(dtypes.bfloat16).realize()
            )
        return Tensor(np.ascontiguousarray(a)).realize()


def wide(a):
    return a.astype(np.float64) if a.dtype.kind == "f" or a.dtype == numpy_type("bfloat16") else a


def unary(c):
    kind = c.pick(FLOATS)
    op = c.pick(
        [
            "exp",
            "exp2",
            "log",
            "log2",
            "sin",
            "cos",
            "sqrt",
            "rsqrt",
            "reciprocal",
            "tanh",
            "sigmoid",
            "relu",
            "abs",
            "neg",
            "floor",
            "ceil",
            "round",
            "trunc",
            "square",
            "sign",
            "erf",
        ]
    )
    a = c.array(
        c.shape(),
        kind,
        *((0.01, 4) if op in ("log", "log2", "sqrt", "rsqrt", "reciprocal") else (None, None)),
    )
    if op == "exp" and kind == "float16":
        a = c.array(a.shape, kind, -12, 12)
    c.name = f"{op} {kind}{a.shape}"
    import math

    x = wide(a)
    want = {
        "rsqrt": lambda: 1 / np.sqrt(x),
        "reciprocal": lambda: 1 / x,
        "sigmoid": lambda: 1 / (1 + np.exp(-x)),
        "relu": lambda: np.maximum(x, 0),
        "neg": lambda: -x,
        "round": lambda: np.rint(x),
        "erf": lambda: np.vectorize(math.erf)(x),
    }.get(op, lambda: getattr(np, op)(x))()
    got = getattr(c.tensor(a), op)()
    if op == "exp" and kind == "float16":
        # exp(x) is exp2 of a half, which holds x / ln 2 to 11 bits: near the end of the range that
        # decides about infinity.
        return got, want, np.abs(want) * np.abs(x) * 2.0**-9 + 0.01, 65504 / (1 + 12 * 2.0**-9)
    return got, want


def binary(c):
    kind = c.pick(EVERY)
    shape = c.shape()
    a = c.array(shape, kind)
    b = c.array([n if c.rng.random() < 0.8 else 1 for n in shape], kind)
    if kind == "bool":
        op = c.pick(["and", "or", "xor", "==", "!="])
    elif kind in FLOATS:
        op = c.pick(["+", "-", "*", "/", "max", "min", "<", "==", ">="])
        if op == "/":
            b = c.array(b.shape, kind, 0.5, 4)
    else:
        op = c.pick(
            [
                "+",
                "-",
                "*",
                "//",
                "%",
                "max",
                "min",
                "<",
                "==",
                "!=",
                "and",
                "or",
                "xor",
                "<<",
                ">>",
            ]
        )
        if op in ("<<", ">>"):
            a, b = c.array(shape, kind, 0, 100), c.array(b.shape, kind, 0, 7)
        if op in ("//", "%"):
            b = c.array(b.shape, kind, 1, 100)
    c.name = f"{kind}{a.shape} {op} {b.shape}"
    functions = {
        "+": lambda x, y: x + y,
        "-": lambda x, y: x - y,
        "*": lambda x, y: x * y,
        "/": lambda x, y: x / y,
        "//": lambda x, y: x // y,
        "%": lambda x, y: x % y,
        "<": lambda x, y: x < y,
        "==": lambda x, y: x == y,
        "!=": lambda x, y: x != y,
        ">=": lambda x, y: x >= y,
        "and": lambda x, y: x & y,
        "or": lambda x, y: x | y,
        "xor": lambda x, y: x ^ y,
        "<<": lambda x, y: x << y,
        ">>": lambda x, y: x >> y,
    }
    with np.errstate(all="ignore"):
        if op in ("max", "min"):
            want = (np.maximum if op == "max" else np.minimum)(a, b)
            got = (Tensor.maximum if op == "max" else Tensor.minimum)(c.tensor(a), c.tensor(b))
        else:
            want = functions[op](wide(a), wide(b)) if kind in FLOATS else functions[op](a, b)
            got = functions[op](c.tensor(a), c.tensor(b))
    return got, want


def cast(c):
    kind, to = c.pick(EVERY), c.pick(EVERY)
    a = c.array(c.shape(), kind, 0, 100)
    c.name = f"{kind}{a.shape} to {to}"
    return c.tensor(a).cast(getattr(dtypes, to)), a.astype(numpy_type(to))


def reduction(c):
    kind = c.pick(FLOATS + INTEGERS)
    a = c.array(c.shape(3, 40), kind, -3, 4)
    op = c.pick(
        ["sum", "max", "min", "mean", "argmax", "argmin", "var", "softmax", "logsumexp"]
        if kind in FLOATS
        else ["sum", "max", "min", "argmax", "argmin"]
    )
    axis = int(c.rng.integers(a.ndim))
    c.name = f"{op} {kind}{a.shape} along {axis}"
    x, t = wide(a), c.tensor(a)
    # A sum of halves is rounded as often as it has terms, at worst.
    slack = 2.0 * CLOSE.get(kind, 0) * np.sqrt(a.shape[axis]) * 4
    if op == "softmax":
        e = np.exp(x - x.max(axis, keepdims=True))
        return t.softmax(axis), e / e.sum(axis, keepdims=True), slack
    if op == "logsumexp":
        return t.logsumexp(axis), np.log(np.exp(x).sum(axis)), slack
    if op == "var":
        if a.shape[axis] < 2:
            op = "mean"
        else:
            return t.var(axis), x.var(axis, ddof=1), slack * 4
    return getattr(t, op)(axis), getattr(x, op)(axis), slack


def matmul(c):
    kind = c.pick(["float16", "bfloat16", "float32", "float64", "int32"])
    m, n, k = (int(v) for v in c.rng.integers(1, 70, 3))
    a, b = c.array((m, k), kind, -2, 3), c.array((k, n), kind, -2, 3)
    c.name = f"{kind} {m} x {k} x {n}"
    return c.tensor(a) @ c.tensor(b), wide(a) @ wide(b), CLOSE.get(kind, 0) * 6 * np.sqrt(k)


def convolution(c):
    kind = c.pick(["float16", "float32", "float64"])
    n, groups, ci, co = (
        int(c.rng.integers(1, 3)),
        c.pick([1, 1, 2]),
        int(c.rng.integers(1, 4)),
        int(c.rng.integers(1, 5)),
    )
    h, w, kh, kw = (
        int(c.rng.integers(5, 14)),
        int(c.rng.integers(5, 14)),
        int(c.rng.integers(1, 4)),
        int(c.rng.integers(1, 4)),
    )
    stride, padding = int(c.rng.integers(1, 3)), int(c.rng.integers(0, 2))
    a, f = c.array((n, ci * groups, h, w), kind, -2, 2), c.array(
        (co * groups, ci, kh, kw), kind, -1, 1
    )
    c.name = (
        f"conv2d {kind}{a.shape} by {f.shape}, groups {groups}, stride {stride}, padding {padding}"
    )
    x = np.pad(wide(a), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    oh, ow = (h + 2 * padding - kh) // stride + 1, (w + 2 * padding - kw) // stride + 1
    want = np.zeros((n, co * groups, oh, ow))
    for g in range(groups):
        for i in range(kh):
            for j in range(kw):
                part = x[
                    :,
                    g * ci : (g + 1) * ci,
                    i : i + oh * stride : stride,
                    j : j + ow * stride : stride,
                ][:, :, :oh, :ow]
                want[:, g * co : (g + 1) * co] += np.einsum(
                    "nchw,oc->nohw", part, wide(f)[g * co : (g + 1) * co, :, i, j]
                )
    return (
        c.tensor(a).conv2d(c.tensor(f), groups=groups, stride=stride, padding=padding),
        want,
        CLOSE[kind] * 4 * np.sqrt(ci * kh * kw),
    )


def pooling(c):
    a = c.array((2, 3, int(c.rng.integers(4, 15)), int(c.rng.integers(4, 15))), "float32")
    c.name = f"max_pool2d {a.shape}"
    h, w = a.shape[2] // 2, a.shape[3] // 2
    return c.tensor(a).max_pool2d(2), a[:, :, : 2 * h, : 2 * w].reshape(2, 3, h, 2, w, 2).max(
        (3, 5)
    )


def gather(c):
    kind = c.pick(EVERY)
    a = c.array((int(c.rng.integers(1, 30)), int(c.rng.integers(1, 20))), kind)
    i = c.rng.integers(0, a.shape[0], (int(c.rng.integers(1, 30)), a.shape[1])).astype(
        c.pick(["int32", "int64"])
    )
    if c.rng.random() < 0.5:
        c.name = f"gather {kind}{a.shape} at {i.shape}"
        return c.tensor(a).gather(0, c.tensor(i)), np.take_along_axis(a, i, 0)
    c.name = f"index {kind}{a.shape} at {i.shape[:1]}"
    return c.tensor(a)[c.tensor(i[:, 0])], a[i[:, 0]]


def cumulative(c):
    kind = c.pick(["float32", "float64", "int32", "int64"])
    a = c.array(c.shape(2, 300), kind, -2, 3)
    axis = int(c.rng.integers(a.ndim))
    if c.rng.random() < 0.5:
        c.name = f"cumsum {kind}{a.shape} along {axis}"
        return (
            c.tensor(a).cumsum(axis),
            np.cumsum(wide(a), axis),
            CLOSE.get(kind, 0) * a.shape[axis],
        )
    c.name = f"cummax {kind}{a.shape} along {axis}"
    got = c.tensor(a).cummax(axis)
    return got[0] if isinstance(got, tuple) else got, np.maximum.accumulate(a, axis)


def moving(c):
    kind = c.pick(EVERY)
    a = c.array(c.shape(3, 12), kind)
    op = c.pick(["flip", "transpose", "pad", "cat", "where", "sort"])
    c.name = f"{op} {kind}{a.shape}"
    t = c.tensor(a)
    if op == "flip":
        return t.flip(0), np.flip(a, 0)
    if op == "transpose":
        return t.permute(*range(a.ndim)[::-1]).contiguous(), a.T
    if op == "pad":
        return t.pad(tuple((1, 2) for _ in a.shape)), np.pad(a, [(1, 2)] * a.ndim)
    if op == "cat":
        return t.cat(t.flip(0), dim=0), np.concatenate([a, np.flip(a, 0)], 0)
    if op == "where":
        m = c.array(a.shape, "bool")
        return c.tensor(m).where(t, t.flip(0)), np.where(m, a, np.flip(a, 0))
    if kind == "bool":
        return t.flip(0), np.flip(a, 0)
    return t.sort(0)[0], np.sort(a, 0)


GROUPS = [
    unary,
    unary,
    binary,
    binary,
    binary,
    cast,
    reduction,
    reduction,
    matmul,
    convolution,
    pooling,
    gather,
    cumulative,
    moving,
]


def differs(got, want, slack=None, infinite_above=None):
    got = np.asarray(
        got.cast(dtypes.float32).numpy() if got.dtype == dtypes.bfloat16 else got.numpy()
    )
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    kind = str(got.dtype)
    if got.dtype.kind != "f":
        wrong = got != want.astype(got.dtype)
    else:
        want = want.astype(np.float64)
        if slack is None:
            kind_of = "bfloat16" if differs.bfloat else kind
            slack = CLOSE[kind_of] * np.maximum(1, np.abs(want))
        elif np.ndim(slack) == 0:
            slack = slack * np.maximum(1, np.abs(want))
        with np.errstate(all="ignore"):
            wrong = ~(
                (np.abs(got - want) <= slack) | (got == want) | (np.isnan(got) & np.isnan(want))
            )
        if infinite_above:
            wrong &= ~(np.isinf(got) & (want > infinite_above))
    if not wrong.any():
        return None
    at = tuple(int(i[0]) for i in np.nonzero(wrong))
    return f"{wrong.sum()} of {wrong.size} differ, first {got[at]!r}, not {want[at]!r}, at {at}"


def main():
    seed = int(sys.argv[1])
    first, last = (
        (int(n) for n in sys.argv[2].split(":"))
        if ":" in sys.argv[2]
        else (0, int(sys.argv[2]) - 1)
    )
    bad = 0
    for number in range(first, last + 1):
        c = Case(np.random.default_rng([seed, number]))
        group = GROUPS[number % len(GROUPS)]
        try:
            result = group(c)
            differs.bfloat = result[0].dtype == dtypes.bfloat16
            why = differs(*result)
        except Exception as e:
            why = f"{type(e).__name__}: {str(e)[:300]}"
        if why:
            bad += 1
            print(f"seed {seed} case {number}: {group.__name__} {c.name}: {why}", flush=True)
    print(f"{last + 1 - first} cases, {bad} differ")
    return bad != 0


sys.exit(main())
