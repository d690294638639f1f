#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a CUDA C++ program of random straight-line functions: random-cuda.py SEED FUNCTIONS

The program runs each function on the device and on the host with the same inputs, compares the
results bit for bit, and says which differ. Every operation is defined for every input, in C++ and
in CUDA alike: unsigned sums, masked shifts, guarded divisions and conversions. All NaNs count as
one, and nothing reads a NaN's sign: 0/0 has the sign bit on x86 and not in PTX.
"""

import random
import sys

INTEGERS = [
    "int8_t",
    "uint8_t",
    "int16_t",
    "uint16_t",
    "int32_t",
    "uint32_t",
    "int64_t",
    "uint64_t",
]
TYPES = INTEGERS + ["float", "double"]
BITS = {t: int("".join(c for c in t if c.isdigit())) for t in INTEGERS}


class Function:
    """One random function: four arguments, then operations on what was computed before."""

    def __init__(self, rng, number):
        self.rng, self.number = rng, number
        self.values = {t: [] for t in TYPES}
        self.lines = []
        for t, name in (("uint32_t", "a"), ("uint64_t", "b"), ("float", "c"), ("double", "d")):
            self.values[t].append(name)
        for t in INTEGERS:
            self.add(t, f"({t}){rng.choice('ab')}")
        for _ in range(rng.randint(10, 40)):
            self.operation()

    def add(self, t, expression):
        name = f"v{len(self.lines)}"
        self.lines.append(f"{t} {name} = {expression};")
        self.values[t].append(name)

    def any(self, t):
        return self.rng.choice(self.values[t])

    def operation(self):
        t = self.rng.choice([t for t in TYPES if self.values[t]])
        getattr(self, self.rng.choice(["arithmetic", "convert", "choose", "special"]))(t)

    def arithmetic(self, t):
        x, y = self.any(t), self.any(t)
        if t not in INTEGERS:
            return self.add(t, f"{x} {self.rng.choice('+-*/')} {y}")
        u, w = t if t[0] == "u" else "u" + t, BITS[t]
        wide = "uint64_t" if w == 64 else "uint32_t"
        self.add(
            t,
            self.rng.choice(
                [
                    f"({t})({u})(({wide})({u}){x} + ({wide})({u}){y})",
                    f"({t})({u})(({wide})({u}){x} - ({wide})({u}){y})",
                    f"({t})({u})(({wide})({u}){x} * ({wide})({u}){y})",
                    f"({t})({x} & {y})",
                    f"({t})({x} | {y})",
                    f"({t})({x} ^ {y})",
                    f"({t})~{x}",
                    f"({t})({x} >> ({y} & {w - 1}))",
                    f"({t})({u})(({wide})({u}){x} << ({y} & {w - 1}))",
                    f"quotient<{t}>({x}, {y})",
                    f"remainder_of<{t}>({x}, {y})",
                ]
            ),
        )

    def convert(self, t):
        to = self.rng.choice(TYPES)
        x = self.any(t)
        self.add(
            to, f"to<{to}>({x})" if t in ("float", "double") and to in INTEGERS else f"({to}){x}"
        )

    def choose(self, t):
        x, y, p, q = self.any(t), self.any(t), self.any(t), self.any(t)
        compare = self.rng.choice(["<", "<=", ">", ">=", "==", "!="])
        self.add(t, f"({p} {compare} {q}) ? {x} : {y}")

    def special(self, t):
        x, y, z = self.any(t), self.any(t), self.any(t)
        if t in ("float", "double"):
            return self.add(
                t,
                self.rng.choice(
                    [
                        f"fma({x}, {y}, {z})",
                        f"sqrt({x})",
                        f"floor({x})",
                        f"ceil({x})",
                        f"trunc({x})",
                        f"rint({x})",
                        f"fabs({x})",
                        f"signed_as({x}, {y})",
                        f"fmin({x}, {y}) + ({t})0",
                        f"fmax({x}, {y}) + ({t})0",
                        f"-{x}",
                    ]
                ),
            )
        if t in ("uint32_t", "uint64_t"):
            w = BITS[t]
            return self.add(
                t,
                self.rng.choice(
                    [
                        f"bits_of<{t}>({x})",
                        f"leading<{t}>({x})",
                        f"reversed<{t}>({x})",
                        f"high<{t}>({x}, {y})",
                        f"({x} << ({z} & {w - 1})) | ({x} >> (({w} - ({z} & {w - 1})) & {w - 1}))",
                        f"({x} & {y}) ^ ({y} | ~{z})",
                        f"({x} >> {self.rng.randint(0, w - 1)}) & 0x{self.rng.getrandbits(16):x}",
                    ]
                ),
            )
        self.add(t, f"{x} < {y} ? {x} : {y}")

    def text(self):
        results = [f"mix(h, {self.values[t][-1]});" for t in TYPES if self.values[t]]
        body = "\n    ".join(self.lines + ["uint64_t h = 1;"] + results + ["return h;"])
        return (
            f"__host__ __device__ __noinline__ uint64_t f{self.number}"
            "(uint32_t a, uint64_t b, float c, double d)\n"
            f"{{\n    {body}\n}}\n"
        )


HEAD = r"""
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#define HD __host__ __device__ inline

template <class T> HD T quotient(T x, T y)
{
    return y == 0 || (T(-1) < T(0) && y == T(-1)) ? x : T(x / y);
}
template <class T> HD T remainder_of(T x, T y)
{
    return y == 0 || (T(-1) < T(0) && y == T(-1)) ? y : T(x % y);
}
template <class T, class F> HD T to(F f)
{
    const F limit = F(uint64_t(1) << (sizeof(T) * 8 - 2));  // well inside T
    return f > -limit && f < limit && (T(-1) < T(0) || f > F(-1)) ? T(f) : T(77);
}
template <class F> HD F signed_as(F x, F sign)
{
    return sign == sign ? copysign(x, sign) : x;
}
template <class T> HD T bits_of(T x)
{
#ifdef __CUDA_ARCH__
    return sizeof(T) == 8 ? __popcll(x) : __popc(x);
#else
    return sizeof(T) == 8 ? __builtin_popcountll(x) : __builtin_popcount(x);
#endif
}
template <class T> HD T leading(T x)
{
#ifdef __CUDA_ARCH__
    return sizeof(T) == 8 ? __clzll(x) : __clz(x);
#else
    return x == 0 ? sizeof(T) * 8 : sizeof(T) == 8 ? __builtin_clzll(x) : __builtin_clz(x);
#endif
}
template <class T> HD T reversed(T x)
{
#ifdef __CUDA_ARCH__
    return sizeof(T) == 8 ? T(__brevll(x)) : T(__brev(x));
#else
    T r = 0;
    for (unsigned i = 0; i < sizeof(T) * 8; ++i) r |= (x >> i & 1) << (sizeof(T) * 8 - 1 - i);
    return r;
#endif
}
template <class T> HD T high(T x, T y)
{
#ifdef __CUDA_ARCH__
    return sizeof(T) == 8 ? T(__umul64hi(x, y)) : T(__umulhi(x, y));
#else
    return T((unsigned __int128)x * y >> (sizeof(T) * 8));
#endif
}
template <class T> HD void mix(uint64_t &h, T x)
{
    uint64_t bits = 0;
    if (x == x) memcpy(&bits, &x, sizeof x);
    else bits = 0x7FF8;
    h = (h ^ bits) * 0x100000001b3 + (h >> 29);
}
"""

MAIN = r"""
int main()
{
    uint64_t *out;
    if (cudaMallocManaged(&out, sizeof(uint64_t) * kFunctions * kInputs) != cudaSuccess) return 2;
    run<<<(kInputs + 63) / 64, 64>>>(out);
    cudaError_t rc = cudaDeviceSynchronize();
    if (rc != cudaSuccess) {
        printf("%s\n", cudaGetErrorString(rc));
        return 2;
    }
    int wrong = 0;
    for (int f = 0; f < kFunctions; ++f)
        for (int i = 0; i < kInputs; ++i) {
            uint64_t want = call(f, i);
            if (out[f * kInputs + i] != want && ++wrong < 20)
                printf("f%d differs on input %d: %016llx, the host has %016llx\n", f, i,
                       (unsigned long long)out[f * kInputs + i], (unsigned long long)want);
        }
    printf("%d functions on %d inputs: %d differ\n", kFunctions, kInputs, wrong);
    return wrong != 0;
}
"""


def main():
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    rng = random.Random(seed)
    print(f"// random-cuda.py {seed} {count}")
    print(HEAD)
    for i in range(count):
        print(Function(rng, i).text())
    print(f"const int kFunctions = {count}, kInputs = 256;")
    print(
        """HD uint64_t call(int f, int i)
{
    uint64_t s = (uint64_t(i) + 1) * 0x9E3779B97F4A7C15;
    s ^= s >> 31;
    uint32_t a = i < 16 ? uint32_t(i) - 8 : uint32_t(s);
    uint64_t b = i < 32 ? uint64_t(i) - 16 : s * 0xD1B54A32D192ED03;
    float c;
    double d;
    uint32_t cb = i % 3 ? 0x30000000 + uint32_t(s >> 20 & 0x1FFFFFFF) : uint32_t(s >> 17);
    uint64_t db = i % 3 ? 0x3E00000000000000 + (s >> 4 & 0x03FFFFFFFFFFFFFF) : s * 5;
    memcpy(&c, &cb, 4);
    memcpy(&d, &db, 8);
    switch (f) {"""
    )
    for i in range(count):
        print(f"    case {i}: return f{i}(a, b, c, d);")
    print(
        """    }
    return 0;
}
__global__ void run(uint64_t *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= kInputs) return;
    for (int f = 0; f < kFunctions; ++f) out[f * kInputs + i] = call(f, i);
}"""
    )
    print(MAIN)


main()
