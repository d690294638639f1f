// SPDX-License-Identifier: Apache-2.0
// cuBLAS against loops on the host. Run with the name of one group of functions: level1, gemv,
// sgemm, dgemm, hgemm, batched, mixed.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#define CHECK(call) cuda(call, #call, __LINE__)
#define BLAS(call) blas(call, #call, __LINE__)
#define TRUE(x) \
    do \
        if (!(x)) printf("line %d: not true: %s\n", __LINE__, #x), exit(1); \
    while (0)

static void cuda(cudaError_t got, const char *call, int line)
{
    if (got == cudaSuccess) return;
    printf("line %d: %s gave %s\n", line, call, cudaGetErrorName(got));
    exit(1);
}

static void blas(cublasStatus_t got, const char *call, int line)
{
    if (got == CUBLAS_STATUS_SUCCESS) return;
    printf("line %d: %s gave %s\n", line, call, cublasGetStatusName(got));
    exit(1);
}

static std::mt19937 random_number(7);
static cublasHandle_t handle;

// Numbers that half precision holds exactly; whole ones where it must hold their sums, too.
static bool whole_numbers = false;
static double number()
{
    return whole_numbers ? int(random_number() % 7) - 3
                         : (int(random_number() % 513) - 256) / 128.0;
}

template <typename T> static double wide(T x) { return double(x); }
template <> double wide(__half x) { return __half2float(x); }
template <> double wide(__nv_bfloat16 x) { return __bfloat162float(x); }
template <typename T> static T narrow(double x) { return T(x); }
template <> __half narrow(double x) { return __float2half(float(x)); }
template <> __nv_bfloat16 narrow(double x) { return __float2bfloat16(float(x)); }

// Memory of the device and what it should hold.
template <typename T> struct Both {
    std::vector<T> host;
    T *device;
    explicit Both(size_t n) : host(n)
    {
        for (T &x : host) x = narrow<T>(number());
        CHECK(cudaMalloc(&device, n * sizeof(T)));
        CHECK(cudaMemcpy(device, host.data(), n * sizeof(T), cudaMemcpyHostToDevice));
    }
    ~Both() { cudaFree(device); }
    double operator[](size_t i) const { return wide(host[i]); }
    // The largest difference to `host`, which the caller has set to what is right.
    double off() const
    {
        std::vector<T> got(host.size());
        CHECK(cudaMemcpy(got.data(), device, got.size() * sizeof(T), cudaMemcpyDeviceToHost));
        double worst = 0;
        for (size_t i = 0; i < got.size(); i++) {
            const double d = std::fabs(wide(got[i]) - wide(host[i])) /
                             (1 + std::fabs(wide(host[i])));
            if (!(d <= worst)) worst = d;
        }
        return worst;
    }
};

static void level1()
{
    for (int n : {1, 37, 5000}) {
        Both<float> x(n), y(n);
        double dot = 0, norm = 0, sum = 0;
        int top = 0;
        for (int i = 0; i < n; i++) {
            dot += x[i] * y[i], norm += x[i] * x[i], sum += std::fabs(x[i]);
            if (std::fabs(x[i]) > std::fabs(x[top])) top = i;
        }
        float got;
        int where;
        BLAS(cublasSdot(handle, n, x.device, 1, y.device, 1, &got));
        TRUE(std::fabs(got - dot) <= 1e-5 * (n + std::fabs(dot)));
        BLAS(cublasSnrm2(handle, n, x.device, 1, &got));
        TRUE(std::fabs(got - std::sqrt(norm)) <= 1e-5 * std::sqrt(norm));
        BLAS(cublasSasum(handle, n, x.device, 1, &got));
        TRUE(std::fabs(got - sum) <= 1e-5 * sum);
        BLAS(cublasIsamax(handle, n, x.device, 1, &where));
        TRUE(where == top + 1);
        const float two = 2, half = 0.5f;
        BLAS(cublasSaxpy(handle, n, &two, x.device, 1, y.device, 1));
        for (int i = 0; i < n; i++) y.host[i] += 2 * x.host[i];
        TRUE(y.off() == 0);
        BLAS(cublasSscal(handle, n, &half, x.device, 1));
        for (float &v : x.host) v *= 0.5f;
        TRUE(x.off() == 0);
        BLAS(cublasSswap(handle, n, x.device, 1, y.device, 1));
        std::swap(x.host, y.host);
        TRUE(x.off() == 0 && y.off() == 0);
        BLAS(cublasScopy(handle, n, x.device, 1, y.device, 1));
        y.host = x.host;
        TRUE(y.off() == 0);
    }
}

static void gemv()
{
    for (auto [m, n] : {std::pair{5, 3}, {64, 130}, {301, 77}}) {
        for (auto op : {CUBLAS_OP_N, CUBLAS_OP_T}) {
            Both<double> a(m * n), x(m + n), y(m + n);
            const double alpha = 1.5, beta = 0.25;
            BLAS(cublasDgemv(handle, op, m, n, &alpha, a.device, m, x.device, 1, &beta, y.device,
                             1));
            const int rows = op == CUBLAS_OP_N ? m : n, columns = m + n - rows;
            for (int i = 0; i < rows; i++) {
                double sum = 0;
                for (int k = 0; k < columns; k++)
                    sum += (op == CUBLAS_OP_N ? a[i + k * m] : a[k + i * m]) * x[k];
                y.host[i] = alpha * sum + beta * y.host[i];
            }
            TRUE(y.off() < 1e-12);
        }
    }
    Both<float> a(90 * 33), x(40), y(100);
    const float one = 1, zero = 0;
    BLAS(cublasSgemv(handle, CUBLAS_OP_N, 90, 33, &one, a.device, 90, x.device, 1, &zero, y.device,
                     1));
    for (int i = 0; i < 90; i++) {
        double sum = 0;
        for (int k = 0; k < 33; k++) sum += a[i + k * 90] * x[k];
        y.host[i] = float(sum);
    }
    TRUE(y.off() < 1e-5);
}

// C = alpha op(A) op(B) + beta C, as the host does it. `at` is where a batch's matrices begin.
template <typename A, typename C>
static void product(cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, double alpha,
                    const Both<A> &a, const Both<A> &b, double beta, Both<C> &c, size_t a_at = 0,
                    size_t b_at = 0, size_t c_at = 0)
{
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++) {
            double sum = 0;
            for (int l = 0; l < k; l++)
                sum += a[a_at + (ta == CUBLAS_OP_N ? i + l * m : l + i * k)] *
                       b[b_at + (tb == CUBLAS_OP_N ? l + j * k : j + l * n)];
            const size_t at = c_at + i + j * m;
            c.host[at] = narrow<C>(alpha * sum + beta * wide(c.host[at]));
        }
}

struct Shape {
    int m, n, k;
};
static const Shape kShapes[] = {
    {1, 1, 1}, {16, 16, 16}, {33, 17, 65}, {128, 96, 40}, {200, 150, 129}};
static const std::pair<cublasOperation_t, cublasOperation_t> kWays[] = {{CUBLAS_OP_N, CUBLAS_OP_N},
                                                                        {CUBLAS_OP_T, CUBLAS_OP_N},
                                                                        {CUBLAS_OP_N, CUBLAS_OP_T},
                                                                        {CUBLAS_OP_T, CUBLAS_OP_T}};

template <typename T, typename Gemm> static void gemm(Gemm call, double close)
{
    for (auto [m, n, k] : kShapes)
        for (auto [ta, tb] : kWays) {
            Both<T> a(m * k), b(k * n), c(m * n);
            const T alpha = narrow<T>(0.5), beta = narrow<T>(2);
            BLAS(call(handle, ta, tb, m, n, k, &alpha, a.device, ta == CUBLAS_OP_N ? m : k,
                      b.device, tb == CUBLAS_OP_N ? k : n, &beta, c.device, m));
            product(ta, tb, m, n, k, 0.5, a, b, 2, c);
            const double off = c.off();
            if (!(off <= close))
                printf("%d x %d x %d, %d %d: off by %g\n", m, n, k, ta, tb, off), exit(1);
        }
}

static void batched()
{
    constexpr int m = 20, n = 24, k = 36, count = 5;
    Both<float> a(m * k * count), b(k * n * count), c(m * n * count), d(m * n * count);
    const float alpha = 1, beta = 0;
    BLAS(cublasSgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &alpha, a.device, m,
                                   m * k, b.device, k, k * n, &beta, c.device, m, m * n, count));
    std::vector<float *> pointers;
    for (int i = 0; i < count; i++) pointers.push_back(a.device + i * m * k);
    for (int i = 0; i < count; i++) pointers.push_back(b.device + i * k * n);
    for (int i = 0; i < count; i++) pointers.push_back(d.device + i * m * n);
    float **there;
    CHECK(cudaMalloc(&there, pointers.size() * sizeof *there));
    CHECK(cudaMemcpy(there, pointers.data(), pointers.size() * sizeof *there,
                     cudaMemcpyHostToDevice));
    BLAS(cublasSgemmBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &alpha, there, m,
                            there + count, k, &beta, there + 2 * count, m, count));
    for (int i = 0; i < count; i++) {
        product(CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, 1, a, b, 0, c, i * m * k, i * k * n, i * m * n);
        product(CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, 1, a, b, 0, d, i * m * k, i * k * n, i * m * n);
    }
    TRUE(c.off() < 1e-5 && d.off() < 1e-5);
    CHECK(cudaFree(there));
}

// Halves in, sums in float: tensor cores.
template <typename T> static void mixed(cudaDataType type, double close)
{
    for (auto [m, n, k] : {Shape{16, 16, 16}, {64, 64, 64}, {128, 136, 72}, {256, 128, 256}}) {
        for (auto [ta, tb] : kWays) {
            Both<T> a(m * k), b(k * n), c(m * n);
            Both<float> d(m * n);
            const float alpha = 1, beta = 0;
            const int lda = ta == CUBLAS_OP_N ? m : k, ldb = tb == CUBLAS_OP_N ? k : n;
            BLAS(cublasGemmEx(handle, ta, tb, m, n, k, &alpha, a.device, type, lda, b.device, type,
                              ldb, &beta, c.device, type, m, CUBLAS_COMPUTE_32F,
                              CUBLAS_GEMM_DEFAULT));
            BLAS(cublasGemmEx(handle, ta, tb, m, n, k, &alpha, a.device, type, lda, b.device, type,
                              ldb, &beta, d.device, CUDA_R_32F, m, CUBLAS_COMPUTE_32F,
                              CUBLAS_GEMM_DEFAULT));
            product(ta, tb, m, n, k, 1, a, b, 0, c);
            product(ta, tb, m, n, k, 1, a, b, 0, d);
            if (!(c.off() <= close && d.off() <= 1e-5)) {
                printf("%d x %d x %d, %d %d: off by %g, %g\n", m, n, k, ta, tb, c.off(), d.off());
                exit(1);
            }
        }
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    BLAS(cublasCreate(&handle));
    if (!strcmp(what, "level1"))
        level1();
    else if (!strcmp(what, "gemv"))
        gemv();
    else if (!strcmp(what, "sgemm"))
        gemm<float>(cublasSgemm, 1e-5);
    else if (!strcmp(what, "dgemm"))
        gemm<double>(cublasDgemm, 1e-13);
    else if (!strcmp(what, "hgemm"))
        whole_numbers = true, gemm<__half>(cublasHgemm, 0);
    else if (!strcmp(what, "batched"))
        batched();
    else if (!strcmp(what, "mixed"))
        mixed<__half>(CUDA_R_16F, 1e-3), mixed<__nv_bfloat16>(CUDA_R_16BF, 8e-3);
    else
        return printf("which group?\n"), 2;
    BLAS(cublasDestroy(handle));
    printf("right\n");
}
