// SPDX-License-Identifier: Apache-2.0
// cuFFT against a discrete Fourier transform on the host. Run with c2c, z2z, r2c, c2r, 2d or
// batched.
#include "../check.h"
#include <cufft.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

using Wide = std::complex<double>;

static std::vector<Wide> noise(size_t n, bool real = false)
{
    static std::mt19937 random(7);
    std::uniform_real_distribution<double> value(-1, 1);
    std::vector<Wide> out(n);
    // Floats, so that both precisions transform the same numbers.
    for (Wide &v : out) v = {float(value(random)), real ? 0 : float(value(random))};
    return out;
}

// The definition, along one axis: `count` lines of n values, `stride` apart, with the given
// distance between lines.
static void transform(std::vector<Wide> &data, int n, int stride, int count, int distance, int sign)
{
    std::vector<Wide> roots(n), line(n);
    for (int i = 0; i < n; i++) roots[i] = std::polar(1.0, sign * 2 * std::acos(-1.0) * i / n);
    for (int l = 0; l < count; l++) {
        Wide *at = data.data() + size_t(l) * distance;
        for (int k = 0; k < n; k++) {
            Wide sum = 0;
            for (int j = 0; j < n; j++) sum += at[size_t(j) * stride] * roots[size_t(j) * k % n];
            line[k] = sum;
        }
        for (int k = 0; k < n; k++) at[size_t(k) * stride] = line[k];
    }
}

static void transform_2d(std::vector<Wide> &data, int rows, int columns, int sign)
{
    transform(data, columns, 1, rows, columns, sign);
    transform(data, rows, columns, columns, 1, sign);
}

// The largest difference, as a part of the largest value.
template <class T> void close(const char *what, int n, const std::vector<T> &got,
                              const std::vector<Wide> &wanted, double limit)
{
    double worst = 0, largest = 0;
    for (size_t i = 0; i < wanted.size(); i++) {
        largest = std::max(largest, std::abs(wanted[i]));
        // A NaN is not <= anything, so that it ends up in worst.
        const double off = std::abs(Wide(got[i]) - wanted[i]);
        if (!(off <= worst)) worst = off;
    }
    if (worst <= limit * largest) return;
    printf("%s of %d: off by %g, the largest value is %g\n", what, n, worst, largest);
    exit(1);
}

template <class T> struct Device {
    T *data;
    size_t count;
    explicit Device(size_t n) : count(n) { CHECK(cudaMalloc(&data, n * sizeof(T))); }
    explicit Device(const std::vector<T> &from) : Device(from.size())
    {
        CHECK(cudaMemcpy(data, from.data(), count * sizeof(T), cudaMemcpyHostToDevice));
    }
    ~Device() { cudaFree(data); }
    std::vector<T> get() const
    {
        std::vector<T> out(count);
        CHECK(cudaMemcpy(out.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
        return out;
    }
};

// What cuFFT calls the types and functions of a precision.
template <class Real> constexpr bool wide = std::is_same_v<Real, double>;
template <class Real> constexpr double limit = wide<Real> ? 1e-13 : 2e-6;
template <class Real>
using Complex = std::conditional_t<wide<Real>, cufftDoubleComplex, cufftComplex>;

static void run(cufftHandle plan, cufftComplex *in, cufftComplex *out, int way)
{
    CHECK(cufftExecC2C(plan, in, out, way));
}
static void run(cufftHandle plan, cufftDoubleComplex *in, cufftDoubleComplex *out, int way)
{
    CHECK(cufftExecZ2Z(plan, in, out, way));
}
static void run(cufftHandle plan, float *in, cufftComplex *out)
{
    CHECK(cufftExecR2C(plan, in, out));
}
static void run(cufftHandle plan, double *in, cufftDoubleComplex *out)
{
    CHECK(cufftExecD2Z(plan, in, out));
}
static void run(cufftHandle plan, cufftComplex *in, float *out)
{
    CHECK(cufftExecC2R(plan, in, out));
}
static void run(cufftHandle plan, cufftDoubleComplex *in, double *out)
{
    CHECK(cufftExecZ2D(plan, in, out));
}

template <class T> std::vector<T> as(const std::vector<Wide> &from)
{
    std::vector<T> out(from.size());
    for (size_t i = 0; i < from.size(); i++)
        if constexpr (std::is_floating_point_v<T>)
            out[i] = T(from[i].real());
        else
            out[i] = T(from[i]);
    return out;
}

// Powers of two, small primes and their products, large primes (Bluestein's way), and more than a
// block holds.
const int kSizes[] = {1, 2, 60, 128, 210, 1000, 1009, 2048, 8192};

template <class Real> void complex_1d(const char *what)
{
    for (int n : kSizes) {
        const std::vector<Wide> in = noise(n);
        Device<std::complex<Real>> device(as<std::complex<Real>>(in));
        auto *data = reinterpret_cast<Complex<Real> *>(device.data);
        cufftHandle plan;
        CHECK(cufftPlan1d(&plan, n, wide<Real> ? CUFFT_Z2Z : CUFFT_C2C, 1));
        std::vector<Wide> wanted = in;
        transform(wanted, n, 1, 1, n, -1);
        run(plan, data, data, CUFFT_FORWARD);
        close(what, n, device.get(), wanted, limit<Real>);
        // There and back again is n times what was.
        run(plan, data, data, CUFFT_INVERSE);
        wanted = in;
        for (Wide &v : wanted) v *= n;
        close(what, n, device.get(), wanted, limit<Real>);
        CHECK(cufftDestroy(plan));
    }
}

template <class Real> void real_1d(const char *what, bool back)
{
    for (int n : kSizes) {
        const std::vector<Wide> in = noise(n, true);
        std::vector<Wide> wanted = in;
        transform(wanted, n, 1, 1, n, -1);
        wanted.resize(n / 2 + 1);
        cufftHandle plan;
        if (back) {
            CHECK(cufftPlan1d(&plan, n, wide<Real> ? CUFFT_Z2D : CUFFT_C2R, 1));
            Device<std::complex<Real>> from(as<std::complex<Real>>(wanted));
            Device<Real> to(n);
            run(plan, reinterpret_cast<Complex<Real> *>(from.data), to.data);
            std::vector<Wide> scaled = in;
            for (Wide &v : scaled) v *= n;
            close(what, n, to.get(), scaled, limit<Real>);
        } else {
            CHECK(cufftPlan1d(&plan, n, wide<Real> ? CUFFT_D2Z : CUFFT_R2C, 1));
            Device<Real> from(as<Real>(in));
            Device<std::complex<Real>> to(n / 2 + 1);
            run(plan, from.data, reinterpret_cast<Complex<Real> *>(to.data));
            close(what, n, to.get(), wanted, limit<Real>);
        }
        CHECK(cufftDestroy(plan));
    }
}

template <class Real> void complex_2d(const char *what)
{
    for (auto [rows, columns] : {std::pair{4, 8}, {32, 32}, {17, 60}, {128, 64}, {101, 3}}) {
        const std::vector<Wide> in = noise(size_t(rows) * columns);
        Device<std::complex<Real>> device(as<std::complex<Real>>(in));
        auto *data = reinterpret_cast<Complex<Real> *>(device.data);
        cufftHandle plan;
        CHECK(cufftPlan2d(&plan, rows, columns, wide<Real> ? CUFFT_Z2Z : CUFFT_C2C));
        std::vector<Wide> wanted = in;
        transform_2d(wanted, rows, columns, -1);
        run(plan, data, data, CUFFT_FORWARD);
        close(what, columns, device.get(), wanted, limit<Real>);
        CHECK(cufftDestroy(plan));
    }
}

static void real_2d()
{
    constexpr int rows = 48, columns = 80, half = columns / 2 + 1;
    const std::vector<Wide> in = noise(rows * columns, true);
    std::vector<Wide> all = in, wanted;
    transform_2d(all, rows, columns, -1);
    for (int r = 0; r < rows; r++)
        wanted.insert(wanted.end(), all.begin() + r * columns, all.begin() + r * columns + half);
    Device<float> from(as<float>(in));
    Device<std::complex<float>> to(rows * half);
    cufftHandle plan;
    CHECK(cufftPlan2d(&plan, rows, columns, CUFFT_R2C));
    run(plan, from.data, reinterpret_cast<cufftComplex *>(to.data));
    close("2d r2c", columns, to.get(), wanted, limit<float>);
    CHECK(cufftDestroy(plan));
}

// Many lines at once, with a stride and a stream of one's own, out of place.
static void batched()
{
    constexpr int lines = 24;
    for (int n : {16, 100, 512}) {
        const std::vector<Wide> in = noise(size_t(lines) * n);
        std::vector<Wide> wanted = in;
        transform(wanted, n, lines, lines, 1, -1);
        Device<std::complex<float>> from(as<std::complex<float>>(in)), to(in.size());
        cufftHandle plan;
        cudaStream_t stream;
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        CHECK(cufftPlanMany(&plan, 1, &n, &n, lines, 1, &n, lines, 1, CUFFT_C2C, lines));
        CHECK(cufftSetStream(plan, stream));
        run(plan, reinterpret_cast<cufftComplex *>(from.data),
            reinterpret_cast<cufftComplex *>(to.data), CUFFT_FORWARD);
        CHECK(cudaStreamSynchronize(stream));
        close("batched", n, to.get(), wanted, limit<float>);
        CHECK(cufftDestroy(plan));
        CHECK(cudaStreamDestroy(stream));
    }
}

int main(int, char **argv)
{
    const char *group = argv[1] ? argv[1] : "";
    if (!strcmp(group, "c2c"))
        complex_1d<float>("c2c");
    else if (!strcmp(group, "z2z"))
        complex_1d<double>("z2z");
    else if (!strcmp(group, "r2c"))
        real_1d<float>("r2c", false), real_1d<double>("d2z", false);
    else if (!strcmp(group, "c2r"))
        real_1d<float>("c2r", true), real_1d<double>("z2d", true);
    else if (!strcmp(group, "2d"))
        complex_2d<float>("2d c2c"), complex_2d<double>("2d z2z"), real_2d();
    else if (!strcmp(group, "batched"))
        batched();
    else
        return printf("which group?\n"), 2;
    printf("right\n");
}
