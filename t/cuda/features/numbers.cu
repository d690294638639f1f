// SPDX-License-Identifier: Apache-2.0
// The mathematics of CUDA C++ against the host's: functions of float and double within a few units
// in the last place, roundings and integer intrinsics bit for bit, at values that are edges.
#include "check.h"

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>

// --- functions: NAME(x) or NAME(x, y), and how many units in the last place they may be off

// clang-format off
#define ONE(X) \
    X(sin, 4) X(cos, 4) X(tan, 5) X(asin, 4) X(acos, 4) X(atan, 4) X(sinh, 4) X(cosh, 4) \
    X(tanh, 4) X(asinh, 5) X(acosh, 5) X(atanh, 5) X(exp, 3) X(exp2, 3) X(expm1, 3) \
    X(log, 3) X(log2, 3) X(log10, 4) X(log1p, 3) X(sqrt, 0) X(cbrt, 3) X(erf, 4) \
    X(erfc, 10) X(lgamma, 20) X(tgamma, 16) X(ceil, 0) X(floor, 0) X(trunc, 0) X(round, 0) \
    X(rint, 0) X(nearbyint, 0) X(fabs, 0) X(logb, 0)
// clang-format on
// clang-format off
#define TWO(X) \
    X(pow, 12) X(atan2, 4) X(fmod, 0) X(hypot, 3) X(fdim, 0) X(fmin, 0) X(fmax, 0) \
    X(copysign, 0) X(remainder, 0) X(nextafter, 0)
// clang-format on

template <class T> __device__ T one(int which, T x)
{
    int i = 0;
#define X(name, ulps) \
    if (which == i++) return name(x);
    ONE(X)
#undef X
    return 0;
}
template <class T> T one_on_host(int which, T x)
{
    int i = 0;
#define X(name, ulps) \
    if (which == i++) return std::name(x);
    ONE(X)
#undef X
    return 0;
}
template <class T> __device__ T two(int which, T x, T y)
{
    int i = 0;
#define X(name, ulps) \
    if (which == i++) return name(x, y);
    TWO(X)
#undef X
    return 0;
}
template <class T> T two_on_host(int which, T x, T y)
{
    int i = 0;
#define X(name, ulps) \
    if (which == i++) return std::name(x, y);
    TWO(X)
#undef X
    return 0;
}
struct Function {
    const char *name;
    int ulps;
};
#define X(name, ulps) {#name, ulps},
const Function ones[] = {ONE(X)}, twos[] = {TWO(X)};
#undef X

template <class T>
__global__ void functions(const T *x, const T *y, T *out, int n, int which, bool second)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = second ? two(which, x[i], y[i]) : one(which, x[i]);
}

// Distance in steps of representable numbers; NaNs are equal.
template <class T> double steps(T a, T b)
{
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : 1e30;
    if (a == b) return 0;
    if (std::isinf(a) || std::isinf(b)) return 1e30;
    const double unit =
        std::fabs(double(std::nextafter(b, std::numeric_limits<T>::infinity())) - double(b));
    return std::fabs(double(a) - double(b)) / unit;
}

template <class T> void check_functions(const char *type)
{
    using limits = std::numeric_limits<T>;
    std::vector<T> edges{0,
                         -T(0),
                         1,
                         -1,
                         T(0.5),
                         T(-0.5),
                         T(1.5),
                         T(2.5),
                         2,
                         3,
                         10,
                         -10,
                         T(0.1),
                         100,
                         T(1e-3),
                         T(1e-10),
                         limits::min(),
                         limits::denorm_min(),
                         -limits::denorm_min(),
                         limits::max(),
                         -limits::max(),
                         limits::infinity(),
                         -limits::infinity(),
                         limits::quiet_NaN(),
                         T(3.14159265358979),
                         T(-7.25),
                         T(88),
                         T(-88),
                         20,
                         T(1e5)};
    std::vector<T> x, y;
    for (T a : edges)
        for (T b : edges) x.push_back(a), y.push_back(b);
    uint64_t seed = 12345;
    for (int i = 0; i < 3000; i++) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        x.push_back(T(int64_t(seed) >> 40) / T(1 << (i % 24)));
        y.push_back(T(int32_t(seed)) / T(1 << 28));
    }
    const int n = int(x.size());
    T *dx, *dy, *out;
    CHECK(cudaMallocManaged(&dx, n * sizeof(T)));
    CHECK(cudaMallocManaged(&dy, n * sizeof(T)));
    CHECK(cudaMallocManaged(&out, n * sizeof(T)));
    std::copy(x.begin(), x.end(), dx);
    std::copy(y.begin(), y.end(), dy);
    bool good = true;
    for (int second = 0; second < 2; second++) {
        const int count = second ? int(std::size(twos)) : int(std::size(ones));
        for (int f = 0; f < count; f++) {
            functions<<<8, 128>>>(dx, dy, out, n, f, second);
            CHECK(cudaDeviceSynchronize());
            const Function &what = second ? twos[f] : ones[f];
            for (int i = 0; i < n; i++) {
                const T wanted = second ? two_on_host(f, x[i], y[i]) : one_on_host(f, x[i]);
                // lgamma and tgamma are not so exact between and next to their poles.
                if (x[i] < 0 && strstr(what.name, "gamma")) continue;
                if (steps(out[i], wanted) <= what.ulps) continue;
                // One step more than the largest number.
                if (what.ulps && std::isinf(out[i]) && std::fabs(wanted) == limits::max()) continue;
                printf("%s of %s, %a %a: %a, not %a (%g steps)\n", what.name, type, double(x[i]),
                       second ? double(y[i]) : 0.0, double(out[i]), double(wanted),
                       steps(out[i], wanted));
                good = false;
                break;
            }
        }
    }
    TRUE(good);
    CHECK(cudaFree(dx));
    CHECK(cudaFree(dy));
    CHECK(cudaFree(out));
}

// --- roundings: the host sets its mode

template <int mode> __device__ double rounded(int op, double a, double b, double c)
{
    const float f = float(a), g = float(b), h = float(c);
#define PICK(name, ...) \
    (mode == 0   ? name##_rn(__VA_ARGS__) \
     : mode == 1 ? name##_rz(__VA_ARGS__) \
     : mode == 2 ? name##_rd(__VA_ARGS__) \
                 : name##_ru(__VA_ARGS__))
    switch (op) {
    case 0: return PICK(__dadd, a, b);
    case 1: return PICK(__dmul, a, b);
    case 2: return PICK(__ddiv, a, b);
    case 3: return PICK(__fma, a, b, c);
    case 4: return PICK(__dsqrt, fabs(a));
    case 5: return PICK(__fadd, f, g);
    case 6: return PICK(__fmul, f, g);
    case 7: return PICK(__fdiv, f, g);
    case 8: return PICK(__fmaf, f, g, h);
    case 9: return PICK(__fsqrt, fabsf(f));
    case 10: return PICK(__double2float, a);
    case 11: return PICK(__frcp, f);
    case 12: return PICK(__ll2float, static_cast<long long>(a * 1e12));
    case 13: return PICK(__int2float, static_cast<int>(a * 1e5));
    case 14: return PICK(__ull2double, static_cast<unsigned long long>(fabs(a) * 1e15) * 1001);
    default: return double(PICK(__double2ll, a * 1000)) + PICK(__float2int, f * 10);
    }
}
double rounded_on_host(int op, double a, double b, double c)
{
    volatile double x = a, y = b, z = c;
    volatile float f = float(a), g = float(b), h = float(c), one = 1;
    switch (op) {
    case 0: return x + y;
    case 1: return x * y;
    case 2: return x / y;
    case 3: return std::fma(x, y, z);
    case 4: return std::sqrt(std::fabs(x));
    case 5: return float(f + g);
    case 6: return float(f * g);
    case 7: return float(f / g);
    case 8: return std::fma(f, g, h);
    case 9: return std::sqrt(std::fabs(f));
    case 10: return float(x);
    case 11: return float(one / f);
    default: return 0;
    }
}
template <int mode> __global__ void roundings(const double *in, double *out, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        for (int op = 0; op < 16; op++)
            out[16 * i + op] = rounded<mode>(op, in[i], in[i + 1], in[i + 2]);
}

template <int mode>
void check_roundings(const std::vector<double> &in, double *device_in, double *out)
{
    const int n = int(in.size()) - 2;
    roundings<mode><<<1, 256>>>(device_in, out, n);
    CHECK(cudaDeviceSynchronize());
    const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    for (int i = 0; i < n; i++) {
        // The single-precision inputs are rounded to nearest.
        for (int op = 0; op < 12; op++) {
            const double a = in[i], b = in[i + 1], c = in[i + 2];
            const bool single = op >= 5 && op != 10;
            const double x = single ? double(float(a)) : a, y = single ? double(float(b)) : b,
                         z = single ? double(float(c)) : c;
            fesetround(modes[mode]);
            const double wanted = rounded_on_host(op, x, y, z);
            fesetround(FE_TONEAREST);
            const double got = out[16 * i + op];
            if (got == wanted || (std::isnan(got) && std::isnan(wanted))) continue;
            printf("rounding %d, operation %d of %a %a %a: %a, not %a\n", mode, op, a, b, c, got,
                   wanted);
            exit(1);
        }
    }
}

// --- integer intrinsics

__global__ void integers(const uint32_t *in, uint64_t *out, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const uint32_t a = in[i], b = in[i + 1], c = in[i + 2];
        const uint64_t w = uint64_t{a} << 32 | b, v = uint64_t{b} << 32 | c;
        uint64_t *o = out + 24 * i;
        *o++ = __umulhi(a, b);
        *o++ = uint32_t(__mulhi(int(a), int(b)));
        *o++ = __umul64hi(w, v);
        *o++ = __mul64hi((long long)w, (long long)v);
        *o++ = __clz(a) | __clzll(w & v) << 8 | __ffs(a) << 16 | uint64_t(__ffsll(w & v)) << 24;
        *o++ = __popc(a) | __popcll(w) << 8;
        *o++ = uint64_t(__brev(a)) ^ __brevll(v);
        *o++ = __byte_perm(a, b, c & 0x7777);
        *o++ = __funnelshift_l(a, b, c) ^ uint64_t(__funnelshift_rc(a, b, c)) << 32;
        *o++ = __funnelshift_lc(a, b, c % 40) ^ uint64_t(__funnelshift_r(a, b, c)) << 32;
        *o++ = __sad(int(a), int(b), c) ^ uint64_t(__usad(a, b, c)) << 32;
        *o++ = uint32_t(__hadd(int(a), int(b))) ^ uint64_t(__urhadd(a, b)) << 32;
        *o++ = uint32_t(__rhadd(int(a), int(b))) ^ uint64_t(__uhadd(a, b)) << 32;
        *o++ = __vadd2(a, b) ^ uint64_t(__vaddss4(a, b)) << 32;
        *o++ = __vsubus2(a, b) ^ uint64_t(__vavgu4(a, b)) << 32;
        *o++ = __vcmpgts4(a, b) ^ uint64_t(__vseteq2(a, b & c)) << 32;
        *o++ = __vabsdiffu4(a, b) ^ uint64_t(__vmaxs2(a, b)) << 32;
        *o++ = __vsads4(a, b) ^ uint64_t(__vhaddu4(a, b)) << 32;
        *o++ = uint32_t(__dp4a(int(a), int(b), int(c))) ^ uint64_t(__dp4a(a, b, c)) << 32;
        *o++ = uint32_t(__dp2a_lo(int(a), int(b), int(c))) ^ uint64_t(__dp2a_hi(a, b, c)) << 32;
        *o++ = uint32_t(__viaddmax_s32(int(a), int(b), int(c))) ^ uint64_t(__vimin3_u32(a, b, c))
                                                                      << 32;
        *o++ = w / (v | 1) ^ w % (c | 1);
        *o++ = uint64_t((long long)w / ((long long)(v >> 20) | 1)) ^
               uint64_t((long long)w % (int(c) | 1));
        *o++ = uint32_t(__mul24(int(a), int(b))) ^ uint64_t(__umul24(a, b)) << 32;
    }
}

template <class F> uint32_t bytes(uint32_t a, uint32_t b, F f)
{
    uint32_t r = 0;
    for (int i = 0; i < 4; i++)
        r |= (uint32_t(f(uint8_t(a >> 8 * i), uint8_t(b >> 8 * i))) & 255) << 8 * i;
    return r;
}
template <class F> uint32_t halves(uint32_t a, uint32_t b, F f)
{
    return (uint32_t(f(uint16_t(a), uint16_t(b))) & 0xffff) |
           uint32_t(f(uint16_t(a >> 16), uint16_t(b >> 16))) << 16;
}
static int clamp8(int v) { return v < -128 ? -128 : v > 127 ? 127 : v; }
static uint64_t reverse(uint64_t v, int bits)
{
    uint64_t r = 0;
    for (int i = 0; i < bits; i++) r |= (v >> i & 1) << (bits - 1 - i);
    return r;
}

static void integers_on_host(uint32_t a, uint32_t b, uint32_t c, uint64_t *o)
{
    const uint64_t w = uint64_t{a} << 32 | b, v = uint64_t{b} << 32 | c;
    using i128 = __int128;
    using u128 = unsigned __int128;
    *o++ = uint64_t{a} * b >> 32;
    *o++ = uint32_t(int64_t(int(a)) * int(b) >> 32);
    *o++ = uint64_t(u128(w) * v >> 64);
    *o++ = uint64_t(i128(int64_t(w)) * int64_t(v) >> 64);
    auto clz = [](uint64_t x, int bits) {
        int n = 0;
        while (n < bits && !(x >> (bits - 1 - n) & 1)) n++;
        return n;
    };
    auto ffs = [](uint64_t x) {
        if (!x) return 0;
        int n = 1;
        while (!(x & 1)) x >>= 1, n++;
        return n;
    };
    *o++ = uint64_t(clz(a, 32) | clz(w & v, 64) << 8 | ffs(a) << 16) | uint64_t(ffs(w & v)) << 24;
    *o++ = __builtin_popcount(a) | __builtin_popcountll(w) << 8;
    *o++ = reverse(a, 32) ^ reverse(v, 64);
    uint32_t perm = 0;
    for (int i = 0; i < 4; i++)
        perm |= uint32_t((uint64_t{b} << 32 | a) >> 8 * (c >> 4 * i & 7) & 255) << 8 * i;
    *o++ = perm;
    const uint64_t both = uint64_t{b} << 32 | a;
    *o++ = uint32_t(both << (c & 31) >> 32) ^ uint64_t(uint32_t(both >> (c > 32 ? 32 : c))) << 32;
    const uint32_t n = c % 40 > 32 ? 32 : c % 40;
    *o++ = uint32_t(n == 32 ? a : both << n >> 32) ^ uint64_t(uint32_t(both >> (c & 31))) << 32;
    *o++ = uint32_t(std::llabs(int64_t(int(a)) - int(b)) + c) ^
           uint64_t(uint32_t((a > b ? a - b : b - a) + c)) << 32;
    *o++ = uint32_t((int64_t(int(a)) + int(b)) >> 1) ^ ((uint64_t{a} + b + 1) >> 1) << 32;
    *o++ = uint32_t((int64_t(int(a)) + int(b) + 1) >> 1) ^ ((uint64_t{a} + b) >> 1) << 32;
    *o++ = halves(a, b, [](int x, int y) { return x + y; }) ^
           uint64_t(bytes(a, b, [](int x, int y) { return clamp8(int8_t(x) + int8_t(y)); })) << 32;
    *o++ = halves(a, b, [](int x, int y) { return x > y ? x - y : 0; }) ^
           uint64_t(bytes(a, b, [](int x, int y) { return (x + y + 1) / 2; })) << 32;
    *o++ = bytes(a, b, [](int x, int y) { return int8_t(x) > int8_t(y) ? 255 : 0; }) ^
           uint64_t(halves(a, b & c, [](int x, int y) { return x == y; })) << 32;
    *o++ = bytes(a, b, [](int x, int y) { return std::abs(x - y); }) ^
           uint64_t(halves(a, b, [](int x, int y) { return int16_t(x) > int16_t(y) ? x : y; }))
               << 32;
    uint32_t sad = 0;
    for (int i = 0; i < 4; i++) sad += std::abs(int8_t(a >> 8 * i) - int8_t(b >> 8 * i));
    *o++ = sad ^ uint64_t(bytes(a, b, [](int x, int y) { return (x + y) / 2; })) << 32;
    int dot = int(c);
    uint32_t udot = c;
    for (int i = 0; i < 4; i++)
        dot = int(uint32_t(dot) + uint32_t(int8_t(a >> 8 * i) * int8_t(b >> 8 * i))),
        udot += uint8_t(a >> 8 * i) * uint8_t(b >> 8 * i);
    *o++ = uint32_t(dot) ^ uint64_t(udot) << 32;
    const uint32_t lo = c + uint32_t(int16_t(a) * int8_t(b)) +
                        uint32_t(int16_t(a >> 16) * int8_t(b >> 8)),
                   hi = c + (a & 0xffff) * (b >> 16 & 255) + (a >> 16) * (b >> 24);
    *o++ = lo ^ uint64_t(hi) << 32;
    const uint32_t sum = a + b;
    *o++ = uint32_t(int(sum) > int(c) ? sum : c) ^ uint64_t(a < b   ? (a < c ? a : c)
                                                            : b < c ? b
                                                                    : c)
                                                       << 32;
    *o++ = w / (v | 1) ^ w % (c | 1);
    *o++ = uint64_t(int64_t(w) / (int64_t(v >> 20) | 1)) ^ uint64_t(int64_t(w) % (int(c) | 1));
    const int64_t s24 = int64_t(int(a << 8) >> 8) * (int(b << 8) >> 8);
    *o++ = uint32_t(s24) ^ uint64_t(uint32_t(uint64_t(a & 0xffffff) * (b & 0xffffff))) << 32;
}

int main()
{
    check_functions<float>("float");
    check_functions<double>("double");

    std::vector<double> in{0,    1,   -1,    0.1,    1.0 / 3, 1e-300, 1e300, -1e-310,
                           3e38, 1.5, 1e-45, -7e-40, 2,       5e-324, 1e10};
    uint64_t seed = 99;
    for (int i = 0; i < 2000; i++) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        in.push_back(double(int64_t(seed)) / double(1ull << (i % 63)));
    }
    double *d, *out;
    CHECK(cudaMallocManaged(&d, in.size() * 8));
    CHECK(cudaMallocManaged(&out, in.size() * 16 * 8));
    std::copy(in.begin(), in.end(), d);
    check_roundings<0>(in, d, out);
    check_roundings<1>(in, d, out);
    check_roundings<2>(in, d, out);
    check_roundings<3>(in, d, out);

    std::vector<uint32_t> u{0,  1,  0xffffffff, 0x80000000, 0x7fffffff, 0x80808080, 0x7f7f7f7f,
                            31, 32, 33,         0x8000,     0xffff,     0xff};
    for (int i = 0; i < 3000; i++)
        seed = seed * 6364136223846793005ull + 1442695040888963407ull,
        u.push_back(uint32_t(seed >> 32));
    const int n = int(u.size()) - 2;
    uint32_t *du;
    uint64_t *wide;
    CHECK(cudaMallocManaged(&du, u.size() * 4));
    CHECK(cudaMallocManaged(&wide, size_t(n) * 24 * 8));
    std::copy(u.begin(), u.end(), du);
    integers<<<1, 256>>>(du, wide, n);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++) {
        uint64_t wanted[24];
        integers_on_host(u[i], u[i + 1], u[i + 2], wanted);
        for (int k = 0; k < 24; k++) {
            if (wide[24 * i + k] == wanted[k]) continue;
            printf("intrinsic %d of %x %x %x: %llx, not %llx\n", k, u[i], u[i + 1], u[i + 2],
                   (unsigned long long)wide[24 * i + k], (unsigned long long)wanted[k]);
            return 1;
        }
    }
    return right();
}
