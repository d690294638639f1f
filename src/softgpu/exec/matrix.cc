// Tensor core operations: matrices whose elements are spread over a warp's registers.
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "softgpu/abi.h"

namespace rgpu::softgpu {

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

// Element i of an array of type t; integers are exact in double too.
double element(MatrixType t, const uint8_t *p, unsigned i)
{
    auto as = [&]<class T>(T) {
        T v;
        memcpy(&v, p + i * sizeof(T), sizeof(T));
        return v;
    };
    switch (t) {
    case MatrixType::f16: return static_cast<double>(as(_Float16{}));
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

using Lanes = std::vector<uint8_t>;  // 32 lanes' registers, one lane after another

Lanes gather(rgpu_thread *t, uint32_t site, const void *mine, uint32_t bytes)
{
    Lanes all(size_t{32} * bytes);
    rt_gather(t, site, ~0u, mine, bytes, all.data());
    return all;
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

double dot(const Code &s, const Lanes &a, const Lanes &b, auto at_a, auto at_b, double sum)
{
    size_t a_bytes = a.size() / 32, b_bytes = b.size() / 32;
    for (unsigned k = 0; k < s.k; ++k) {
        Element pa = at_a(k), pb = at_b(k);
        sum += element(s.a, &a[pa.lane * a_bytes], pa.index) *
               element(s.b, &b[pb.lane * b_bytes], pb.index);
    }
    return sum;
}

std::array<uint64_t, 32> gather_addresses(rgpu_thread *t, uint32_t site, const void *row)
{
    auto mine = reinterpret_cast<uint64_t>(row);
    std::array<uint64_t, 32> all{};
    rt_gather(t, site, ~0u, &mine, sizeof mine, all.data());
    return all;
}

}  // namespace

}  // namespace rgpu::softgpu

using namespace rgpu::softgpu;

void rt_mma(rgpu_thread *t, uint32_t site, uint64_t code, const void *a, const void *b,
            const void *c, void *d)
{
    Code s(code);
    Lanes all_a = gather(t, site, a, s.m * s.k * bytes_of(s.a) / 32),
          all_b = gather(t, site, b, s.k * s.n * bytes_of(s.b) / 32);
    unsigned mine = s.m * s.n / 32;
    std::array<double, 16> sums{};
    for (unsigned i = 0; i < mine; ++i) {
        Position p = position_d(t->lane, i);
        sums[i] = dot(
            s, all_a, all_b, [&](unsigned k) { return place_a(s, p.row, k); },
            [&](unsigned k) { return place_b(s, k, p.column); },
            element(s.c, static_cast<const uint8_t *>(c), i));
    }
    for (unsigned i = 0; i < mine; ++i) set_element(s.d, static_cast<uint8_t *>(d), i, sums[i]);
}

void rt_wmma(rgpu_thread *t, uint32_t site, uint64_t code, const void *a, const void *b,
             const void *c, void *d)
{
    Code s(code);
    unsigned in_a = piece(s.m, s.k), in_b = piece(s.k, s.n), mine = piece(s.m, s.n);
    Lanes all_a = gather(t, site, a, in_a * bytes_of(s.a)),
          all_b = gather(t, site, b, in_b * bytes_of(s.b));
    std::array<double, 32> sums{};
    for (unsigned i = 0; i < mine; ++i) {
        unsigned at = t->lane * mine + i, row = at / s.n, column = at % s.n;
        auto at_a = [&](unsigned k) {
            return Element{(row * s.k + k) / in_a, (row * s.k + k) % in_a};
        };
        auto at_b = [&](unsigned k) {
            return Element{(k * s.n + column) / in_b, (k * s.n + column) % in_b};
        };
        sums[i] =
            dot(s, all_a, all_b, at_a, at_b, element(s.c, static_cast<const uint8_t *>(c), i));
    }
    for (unsigned i = 0; i < mine; ++i) set_element(s.d, static_cast<uint8_t *>(d), i, sums[i]);
}

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

// Lanes 8i to 8i+7 bring the addresses of the rows of matrix i.
void rt_ldmatrix(rgpu_thread *t, uint32_t site, uint32_t count, uint32_t transposed,
                 const void *row, void *registers)
{
    auto rows = gather_addresses(t, site, row);
    unsigned r = t->lane / 4, c = t->lane % 4 * 2;
    for (uint32_t i = 0; i < count; ++i) {
        uint16_t pair[2];
        for (unsigned j = 0; j < 2; ++j) {
            unsigned from_row = transposed ? c + j : r, from_column = transposed ? r : c + j;
            memcpy(&pair[j],
                   reinterpret_cast<const uint16_t *>(rows[8 * i + from_row]) + from_column, 2);
        }
        memcpy(static_cast<uint8_t *>(registers) + 4 * i, pair, 4);
    }
    // Nobody may write over the rows before all have read them.
    rt_bar_warp_sync(t, site, ~0u);
}

void rt_stmatrix(rgpu_thread *t, uint32_t site, uint32_t count, uint32_t transposed, void *row,
                 const void *registers)
{
    auto rows = gather_addresses(t, site, row);
    unsigned r = t->lane / 4, c = t->lane % 4 * 2;
    for (uint32_t i = 0; i < count; ++i) {
        uint16_t pair[2];
        memcpy(pair, static_cast<const uint8_t *>(registers) + 4 * i, 4);
        for (unsigned j = 0; j < 2; ++j) {
            unsigned to_row = transposed ? c + j : r, to_column = transposed ? r : c + j;
            memcpy(reinterpret_cast<uint16_t *>(rows[8 * i + to_row]) + to_column, &pair[j], 2);
        }
    }
    rt_bar_warp_sync(t, site, ~0u);
}

uint32_t rt_movmatrix(rgpu_thread *t, uint32_t site, uint32_t value)
{
    std::array<uint16_t, 64> matrix{};  // lane by lane it is row by row
    rt_gather(t, site, ~0u, &value, 4, matrix.data());
    unsigned r = t->lane / 4, c = t->lane % 4 * 2;
    return matrix[c * 8 + r] | uint32_t{matrix[(c + 1) * 8 + r]} << 16;
}
