// SPDX-License-Identifier: Apache-2.0
// Tensor core operations: matrices whose elements are spread over a warp's registers.
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "softgpu/abi.h"
#include "softgpu/exec/warp.h"

namespace rgpu::softgpu::exec {

namespace {

struct Code {
    explicit Code(uint64_t c)
        : m(c & 255), n(c >> 8 & 255), k(c >> 16 & 255), d(type(c, 32)), a(type(c, 36)),
          b(type(c, 40)), c(type(c, 44))
    {}
    static MatrixType type(uint64_t c, int shift)
    {
        return static_cast<MatrixType>(c >> shift & 15);
    }
    unsigned m, n, k;
    MatrixType d, a, b, c;
};

unsigned bytes_of(MatrixType t)
{
    switch (t) {
    case MatrixType::f64: return 8;
    case MatrixType::tf32:
    case MatrixType::f32:
    case MatrixType::s32: return 4;
    case MatrixType::f16:
    case MatrixType::bf16: return 2;
    default: return 1;
    }
}

double fp8(uint8_t v, int mantissa, int bias, bool has_infinity)
{
    int exponent = v >> mantissa & ((1 << (7 - mantissa)) - 1), m = v & ((1 << mantissa) - 1);
    double r;
    if (has_infinity && exponent == (1 << (7 - mantissa)) - 1)
        r = m ? NAN : INFINITY;
    else if (!has_infinity && (v & 0x7F) == 0x7F)
        r = NAN;
    else if (exponent == 0)
        r = std::ldexp(m, 1 - bias - mantissa);
    else
        r = std::ldexp(m + (1 << mantissa), exponent - bias - mantissa);
    return v & 0x80 ? -r : r;
}

// Exactly; without F16C the compiler's conversion is a call.
float half(uint16_t bits)
{
    const uint32_t sign = uint32_t{bits & 0x8000u} << 16, rest = uint32_t{bits & 0x7FFFu} << 13;
    const float f = std::bit_cast<float>(rest) * 0x1p112f;
    const uint32_t all = rest >= 0x0F800000 ? rest | 0x7F800000 : std::bit_cast<uint32_t>(f);
    return std::bit_cast<float>(all | sign);
}

// Element i of an array of type t; integers are exact in double too.
double element(MatrixType t, const uint8_t *p, unsigned i)
{
    auto as = [&]<class T>(T) {
        T v;
        memcpy(&v, p + i * sizeof(T), sizeof(T));
        return v;
    };
    switch (t) {
    case MatrixType::f16: return half(as(uint16_t{}));
    case MatrixType::bf16: return std::bit_cast<float>(uint32_t{as(uint16_t{})} << 16);
    case MatrixType::tf32: return std::bit_cast<float>(as(uint32_t{}) & 0xFFFFE000);
    case MatrixType::f32: return as(float{});
    case MatrixType::f64: return as(double{});
    case MatrixType::s8: return as(int8_t{});
    case MatrixType::u8: return as(uint8_t{});
    case MatrixType::s32: return as(int32_t{});
    case MatrixType::e4m3: return fp8(p[i], 3, 7, false);
    case MatrixType::e5m2: return fp8(p[i], 2, 15, true);
    }
    return 0;
}

void set_element(MatrixType t, uint8_t *p, unsigned i, double v)
{
    auto put = [&](auto x) { memcpy(p + i * sizeof x, &x, sizeof x); };
    switch (t) {
    case MatrixType::f16: return put(static_cast<_Float16>(v));
    case MatrixType::f64: return put(v);
    // Sums of 8-bit products wrap.
    case MatrixType::s32: return put(static_cast<int32_t>(static_cast<int64_t>(v)));
    default: return put(static_cast<float>(v));
    }
}

// Where element (row, column) lies: a lane and the number of its element.
struct Element {
    unsigned lane, index;
};

// PTX's fragments of mma.sync: A in rows of 8 with registers going down first, then along k; B
// along k; C and D in pairs.
Element place_a(const Code &s, unsigned row, unsigned k)
{
    unsigned e = bytes_of(s.a) == 8 ? 1 : 4 / bytes_of(s.a), down = s.m / 8;
    unsigned block = k / (4 * e), reg = block * down + row / 8;
    return {row % 8 * 4 + k % (4 * e) / e, reg * e + k % e};
}

Element place_b(const Code &s, unsigned k, unsigned column)
{
    unsigned e = bytes_of(s.b) == 8 ? 1 : 4 / bytes_of(s.b);
    return {column * 4 + k % (4 * e) / e, k / (4 * e) * e + k % e};
}

struct Position {
    unsigned row, column;
};

Position position_d(unsigned lane, unsigned i)
{
    return {lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2};
}

// wmma's fragments: the matrix row by row, cut into 32 equal pieces.
unsigned piece(unsigned rows, unsigned columns) { return rows * columns / 32; }

constexpr unsigned kMost = 32 * 16;  // elements of the largest matrix: those of m32n8k16

// The lanes of a warp; absent ones bring zeros.
struct All {
    All(const LaneValues &v, uint32_t arrived)
    {
        for (uint32_t i = 0; i < kWarp; ++i)
            of[i] = arrived >> i & 1 ? reinterpret_cast<MatrixLane *>(v.value[i]) : &absent;
    }
    MatrixLane absent{};
    MatrixLane *of[kWarp];
};

// D = A * B + C; a, b and c are row by row.
void multiply(const Code &s, const double *a, const double *b, double *c)
{
    for (unsigned row = 0; row < s.m; ++row)
        for (unsigned k = 0; k < s.k; ++k)
            for (unsigned column = 0; column < s.n; ++column)
                c[row * s.n + column] += a[row * s.k + k] * b[k * s.n + column];
}

// `a`, `b`, `d`: where an element of each lies; D's takes its C's place.
void multiply(const Code &s, const All &all, auto &&place_a, auto &&place_b, auto &&place_d)
{
    std::array<double, kMost> a, b, c;
    for (unsigned row = 0; row < s.m; ++row)
        for (unsigned k = 0; k < s.k; ++k) {
            const Element e = place_a(row, k);
            a[row * s.k + k] = element(s.a, all.of[e.lane]->a, e.index);
        }
    for (unsigned k = 0; k < s.k; ++k)
        for (unsigned column = 0; column < s.n; ++column) {
            const Element e = place_b(k, column);
            b[k * s.n + column] = element(s.b, all.of[e.lane]->b, e.index);
        }
    const unsigned mine = s.m * s.n / kWarp;
    for (unsigned lane = 0; lane < kWarp; ++lane)
        for (unsigned i = 0; i < mine; ++i) c[place_d(lane, i)] = element(s.c, all.of[lane]->c, i);
    multiply(s, a.data(), b.data(), c.data());
    for (unsigned lane = 0; lane < kWarp; ++lane)
        for (unsigned i = 0; i < mine; ++i)
            set_element(s.d, all.of[lane]->d, i, c[place_d(lane, i)]);
}

void mma(const Code &s, const All &all)
{
    multiply(
        s, all, [&](unsigned row, unsigned k) { return place_a(s, row, k); },
        [&](unsigned k, unsigned column) { return place_b(s, k, column); },
        [&](unsigned lane, unsigned i) {
            const Position p = position_d(lane, i);
            return p.row * s.n + p.column;
        });
}

void wmma(const Code &s, const All &all)
{
    const unsigned in_a = piece(s.m, s.k), in_b = piece(s.k, s.n), mine = piece(s.m, s.n);
    multiply(
        s, all,
        [&](unsigned row, unsigned k) {
            return Element{(row * s.k + k) / in_a, (row * s.k + k) % in_a};
        },
        [&](unsigned k, unsigned column) {
            return Element{(k * s.n + column) / in_b, (k * s.n + column) % in_b};
        },
        [&](unsigned lane, unsigned i) { return lane * mine + i; });
}

// Lanes 8i to 8i+7 bring the addresses of the rows of matrix i: calls f with where each lane's pair
// of elements lies, one of them or both, and the pair.
void each_pair(const All &all, uint32_t arrived, uint32_t count, bool transposed, auto &&f)
{
    uint64_t rows[kWarp];
    for (unsigned lane = 0; lane < kWarp; ++lane) memcpy(&rows[lane], all.of[lane]->a, 8);
    for (unsigned lane = 0; lane < kWarp; ++lane) {
        if (!(arrived >> lane & 1)) continue;
        const unsigned r = lane / 4, c = lane % 4 * 2;
        for (uint32_t i = 0; i < count; ++i)
            for (unsigned j = 0; j < 2; ++j) {
                const unsigned row = transposed ? c + j : r, column = transposed ? r : c + j;
                f(reinterpret_cast<uint16_t *>(rows[8 * i + row]) + column, *all.of[lane],
                  4 * i + 2 * j);
            }
    }
}

void turn(const All &all)
{
    uint16_t matrix[64];  // lane by lane it is row by row
    for (unsigned lane = 0; lane < kWarp; ++lane) memcpy(matrix + 2 * lane, all.of[lane]->a, 4);
    for (unsigned lane = 0; lane < kWarp; ++lane) {
        const unsigned r = lane / 4, c = lane % 4 * 2;
        const uint32_t pair = matrix[c * 8 + r] | uint32_t{matrix[(c + 1) * 8 + r]} << 16;
        memcpy(all.of[lane]->d, &pair, 4);
    }
}

}  // namespace

void compute_matrix(const LaneValues &v, uint32_t detail, uint32_t arrived)
{
    All all(v, arrived);
    const auto first = static_cast<uint32_t>(std::countr_zero(arrived));
    const Code code(v.b[first] | uint64_t{v.c[first]} << 32);
    const uint32_t count = detail >> 3 & 7;
    const bool transposed = detail >> 6 & 1;
    switch (static_cast<MatrixOp>(detail & 7)) {
    case MatrixOp::mma: return mma(code, all);
    case MatrixOp::wmma: return wmma(code, all);
    case MatrixOp::load:
        return each_pair(
            all, arrived, count, transposed,
            [](const uint16_t *from, MatrixLane &to, unsigned at) { memcpy(to.d + at, from, 2); });
    case MatrixOp::store:
        return each_pair(
            all, arrived, count, transposed,
            [](uint16_t *to, const MatrixLane &from, unsigned at) { memcpy(to, from.b + at, 2); });
    case MatrixOp::turn: return turn(all);
    }
}

}  // namespace rgpu::softgpu::exec

using namespace rgpu::softgpu;
using namespace rgpu::softgpu::exec;

void rt_wmma_load(rgpu_thread *t, uint64_t code, const void *memory, uint32_t stride,
                  uint32_t by_row, void *fragment)
{
    Code s(code);
    unsigned bytes = bytes_of(s.d), n = piece(s.m, s.n);
    for (unsigned i = 0; i < n; ++i) {
        unsigned at = t->lane * n + i, row = at / s.n, column = at % s.n;
        size_t offset = by_row ? size_t{row} * stride + column : size_t{column} * stride + row;
        memcpy(static_cast<uint8_t *>(fragment) + i * bytes,
               static_cast<const uint8_t *>(memory) + offset * bytes, bytes);
    }
}

void rt_wmma_store(rgpu_thread *t, uint64_t code, void *memory, uint32_t stride, uint32_t by_row,
                   const void *fragment)
{
    Code s(code);
    unsigned bytes = bytes_of(s.d), n = piece(s.m, s.n);
    for (unsigned i = 0; i < n; ++i) {
        unsigned at = t->lane * n + i, row = at / s.n, column = at % s.n;
        size_t offset = by_row ? size_t{row} * stride + column : size_t{column} * stride + row;
        memcpy(static_cast<uint8_t *>(memory) + offset * bytes,
               static_cast<const uint8_t *>(fragment) + i * bytes, bytes);
    }
}
