// SPDX-License-Identifier: Apache-2.0
// cuda_fp16.h and cuda_bf16.h: the same arithmetic by the device's instructions and by the headers'
// host code, bit for bit.
#include "../check.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

template <typename T> __host__ __device__ inline uint32_t bits(T x)
{
    uint32_t b = 0;
    memcpy(&b, &x, sizeof x);
    return b;
}

// One name for what the two headers call by two.
__host__ __device__ inline __half to_half_type(float f, __half) { return __float2half_rn(f); }
__host__ __device__ inline __nv_bfloat16 to_half_type(float f, __nv_bfloat16)
{
    return __float2bfloat16_rn(f);
}
__host__ __device__ inline float to_float(__half h) { return __half2float(h); }
__host__ __device__ inline float to_float(__nv_bfloat16 h) { return __bfloat162float(h); }
__host__ __device__ inline int to_int(__half h) { return __half2int_rz(h); }
__host__ __device__ inline int to_int(__nv_bfloat16 h) { return __bfloat162int_rz(h); }
__host__ __device__ inline __half from_int(int i, __half) { return __int2half_rn(i); }
__host__ __device__ inline __nv_bfloat16 from_int(int i, __nv_bfloat16)
{
    return __int2bfloat16_rn(i);
}
__host__ __device__ inline __half2 pair(__half a, __half b) { return __halves2half2(a, b); }
__host__ __device__ inline __nv_bfloat162 pair(__nv_bfloat16 a, __nv_bfloat16 b)
{
    return __halves2bfloat162(a, b);
}

// A fused multiply-add of the host's own: the product is exact as a double, the sum is rounded to
// odd, then once more to the type.
inline double fused(double a, double b, double c)
{
    const double p = a * b, s = p + c;
    if (!std::isfinite(s)) return s;
    const double t = s - p, rest = (p - (s - t)) + (c - t);
    uint64_t u;
    memcpy(&u, &s, sizeof u);
    if (rest == 0 || (u & 1)) return s;
    return std::nextafter(s, rest > 0 ? INFINITY : -INFINITY);
}
inline __half rounded(double d, __half) { return __double2half(d); }
inline __nv_bfloat16 rounded(double d, __nv_bfloat16) { return __double2bfloat16(d); }

template <typename H> __host__ __device__ inline H fma_of(H a, H b, H c)
{
#ifdef __CUDA_ARCH__
    return __hfma(a, b, c);
#else
    return rounded(fused(to_float(a), to_float(b), to_float(c)), a);
#endif
}
template <typename H> __host__ __device__ inline H fma_sat_of(H a, H b, H c)
{
#ifdef __CUDA_ARCH__
    return __hfma_sat(a, b, c);
#else
    const H f = fma_of(a, b, c), zero = from_int(0, a), one = from_int(1, a);
    return !(to_float(f) > 0) ? zero : to_float(f) > 1 ? one : f;
#endif
}
template <typename H> __host__ __device__ inline H fma_relu_of(H a, H b, H c)
{
#ifdef __CUDA_ARCH__
    return __hfma_relu(a, b, c);
#else
    const H f = fma_of(a, b, c);
    return to_float(f) < 0 || to_float(f) == 0 ? from_int(0, a) : f;
#endif
}
template <typename P> __host__ __device__ inline P fma2_of(P a, P b, P c)
{
#ifdef __CUDA_ARCH__
    return __hfma2(a, b, c);
#else
    return pair(fma_of(a.x, b.x, c.x), fma_of(a.y, b.y, c.y));
#endif
}

static const char *const kNames[] = {
    "add",
    "subtract",
    "multiply",
    "divide",
    "fma",
    "negate",
    "absolute",
    "less",
    "less or unordered",
    "equal",
    "not equal",
    "maximum",
    "minimum",
    "maximum with NaN",
    "saturating add",
    "saturating multiply",
    "to float",
    "from float",
    "to int",
    "from int",
    "is NaN",
    "pair: add",
    "pair: multiply",
    "pair: fma",
    "pair: less",
    "pair: high and low",
    "pair: maximum",
    "saturating fma",
    "fma with relu",
    "pair: divide",
};
constexpr int kResults = sizeof kNames / sizeof *kNames;

template <typename H> __host__ __device__ inline void compute(H a, H b, H c, uint32_t *out)
{
    const auto ab = pair(a, b), bc = pair(b, c), ca = pair(c, a);
    int i = 0;
    out[i++] = bits(__hadd(a, b));
    out[i++] = bits(__hsub(a, b));
    out[i++] = bits(__hmul(a, b));
    out[i++] = bits(__hdiv(a, b));
    out[i++] = bits(fma_of(a, b, c));
    out[i++] = bits(__hneg(a));
    out[i++] = bits(__habs(a));
    out[i++] = __hlt(a, b);
    out[i++] = __hltu(a, b);
    out[i++] = __heq(a, b);
    out[i++] = __hne(a, b);
    out[i++] = bits(__hmax(a, b));
    out[i++] = bits(__hmin(a, b));
    out[i++] = bits(__hmax_nan(a, b));
    out[i++] = bits(__hadd_sat(a, b));
    out[i++] = bits(__hmul_sat(a, b));
    out[i++] = bits(to_float(a));
    out[i++] = bits(to_half_type(to_float(a) * 1.000123f + 3e-6f, a));
    out[i++] = __hisnan(a) ? 0 : to_int(a);
    out[i++] = bits(from_int(int(bits(a) * 40503u) - (int(bits(b)) << 9), a));
    out[i++] = __hisnan(__hadd(a, b));
    out[i++] = bits(__hadd2(ab, bc));
    out[i++] = bits(__hmul2(ab, ca));
    out[i++] = bits(fma2_of(ab, bc, ca));
    out[i++] = bits(__hlt2(ab, bc));
    out[i++] = bits(pair(ab.y, ca.x));
    out[i++] = bits(__hmax2(ab, bc));
    out[i++] = bits(fma_sat_of(a, b, c));
    out[i++] = bits(fma_relu_of(a, b, c));
    out[i++] = bits(__h2div(ab, bc));
}

template <typename H> __global__ void on_device(const H *values, int n, uint32_t *out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * n)
        compute(values[i / n], values[i % n], values[(i * 7 + i / n) % n],
                out + size_t(i) * kResults);
}

template <typename H> static bool is_nan(uint32_t b)
{
    H h;
    const uint16_t low = uint16_t(b);
    memcpy(&h, &low, sizeof h);
    return std::isnan(to_float(h));
}

// Any NaN is as good as another: the CPU's carry its own bits.
template <typename H> static bool alike(int what, uint32_t got, uint32_t wanted)
{
    if (got == wanted) return true;
    // PTX: +0 is more than -0; the headers' host code takes either.
    if (!strcmp(kNames[what], "maximum with NaN") && got == 0 && wanted == 0x8000) return true;
    const bool pairs = !strncmp(kNames[what], "pair", 4);
    if (!strcmp(kNames[what], "to float")) {
        float a, b;
        memcpy(&a, &got, 4), memcpy(&b, &wanted, 4);
        return std::isnan(a) && std::isnan(b);
    }
    auto half_alike = [](uint32_t x, uint32_t y) {
        return uint16_t(x) == uint16_t(y) || (is_nan<H>(x) && is_nan<H>(y));
    };
    return half_alike(got, wanted) &&
           (pairs ? half_alike(got >> 16, wanted >> 16) : got >> 16 == wanted >> 16);
}

template <typename H> static int check(const char *name)
{
    // Every exponent, both signs, the ends of each range, and some in between.
    std::vector<H> values;
    uint32_t random = 12345;
    for (uint32_t b = 0; b < 0x10000; b += 0x155) {
        random = random * 1664525 + 1013904223;
        const uint16_t x = uint16_t(b ^ (random >> 24));
        H h;
        memcpy(&h, &x, sizeof h);
        values.push_back(h);
    }
    for (uint32_t b :
         {0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0x7C00, 0xFC00, 0x7E00,
          0x3C00, 0x007F, 0x0080, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0, 0x3F80, 0xBF80, 0x4000}) {
        const uint16_t x = uint16_t(b);
        H h;
        memcpy(&h, &x, sizeof h);
        values.push_back(h);
    }
    const int n = int(values.size());
    const size_t results = size_t(n) * n * kResults;
    H *d;
    uint32_t *out;
    CHECK(cudaMalloc(&d, n * sizeof(H)));
    CHECK(cudaMalloc(&out, results * sizeof *out));
    CHECK(cudaMemcpy(d, values.data(), n * sizeof(H), cudaMemcpyHostToDevice));
    on_device<<<(n * n + 127) / 128, 128>>>(d, n, out);
    CHECK(cudaGetLastError());
    std::vector<uint32_t> got(results), wanted(kResults);
    CHECK(cudaMemcpy(got.data(), out, results * sizeof *out, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(d));
    CHECK(cudaFree(out));
    std::vector<int> wrong(kResults);
    for (int i = 0; i < n * n; i++) {
        const H a = values[i / n], b = values[i % n], c = values[(i * 7 + i / n) % n];
        compute(a, b, c, wanted.data());
        for (int k = 0; k < kResults; k++)
            if (!alike<H>(k, got[size_t(i) * kResults + k], wanted[k]) && !wrong[k]++)
                printf("%s %s: of %04x %04x %04x device %08x, host %08x\n", name, kNames[k],
                       bits(a), bits(b), bits(c), got[size_t(i) * kResults + k], wanted[k]);
    }
    int all = 0;
    for (int k = 0; k < kResults; k++) {
        if (wrong[k]) printf("%s %s: %d of %d differ\n", name, kNames[k], wrong[k], n * n);
        all += wrong[k];
    }
    return all;
}

// The functions that the hardware approximates: within two units in the last place of the result's
// type.
__global__ void functions(const __half *x, int n, float *out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const __half h = x[i];
    const float all[] = {
        __half2float(hexp(h)),         __half2float(hexp2(h)), __half2float(hsin(h)),
        __half2float(hcos(h)),         __half2float(htanh(h)), __half2float(hsqrt(__habs(h))),
        __half2float(hlog(__habs(h))), __half2float(hrcp(h)),  __half2float(hrsqrt(__habs(h))),
        __half2float(hfloor(h)),       __half2float(hrint(h)), __half2float(hceil(h)),
        __half2float(htrunc(h))};
    for (int k = 0; k < 13; k++) out[i * 13 + k] = all[k];
}

static int check_functions()
{
    std::vector<__half> x;
    for (int b = 0; b < 0x10000; b++) {
        const uint16_t u = uint16_t(b);
        __half h;
        memcpy(&h, &u, sizeof h);
        if (std::isfinite(__half2float(h))) x.push_back(h);
    }
    const int n = int(x.size());
    __half *d;
    float *out;
    CHECK(cudaMalloc(&d, n * sizeof *d));
    CHECK(cudaMalloc(&out, n * 13 * sizeof *out));
    CHECK(cudaMemcpy(d, x.data(), n * sizeof *d, cudaMemcpyHostToDevice));
    functions<<<(n + 255) / 256, 256>>>(d, n, out);
    CHECK(cudaGetLastError());
    std::vector<float> got(n * 13);
    CHECK(cudaMemcpy(got.data(), out, got.size() * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(d));
    CHECK(cudaFree(out));
    int wrong = 0;
    for (int i = 0; i < n; i++) {
        const double v = __half2float(x[i]);
        const double all[] = {
            exp(v), exp2(v),           sin(v),   cos(v),  tanh(v), sqrt(fabs(v)), log(fabs(v)),
            1 / v,  1 / sqrt(fabs(v)), floor(v), rint(v), ceil(v), trunc(v)};
        for (int k = 0; k < 13; k++) {
            const float f = __half2float(__double2half(all[k])), g = got[i * 13 + k];
            const float unit =
                fmaxf(ldexpf(1, ilogbf(fabsf(f) > 0 && std::isfinite(f) ? f : 1) - 10), 0x1p-24f);
            // At the end of the range one unit more is infinity.
            const bool at_end = fabsf(f) >= 65472 && fabsf(g) >= 65472;
            if (!(f == g || fabsf(f - g) <= 2 * unit || at_end ||
                  (std::isnan(f) && std::isnan(g))) &&
                !wrong++)
                printf("function %d of %g: %g, not %g\n", k, v, g, f);
        }
    }
    if (wrong) printf("functions: %d differ\n", wrong);
    return wrong;
}

int main()
{
    const int wrong = check<__half>("half") + check<__nv_bfloat16>("bfloat16") + check_functions();
    printf(wrong ? "wrong\n" : "right\n");
    return wrong != 0;
}
