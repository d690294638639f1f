// SPDX-License-Identifier: Apache-2.0
// cuDNN against loops on the host. Run with softmax, activation, pooling, norm or convolution.
#include <cuda_runtime.h>
#include <cudnn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#define CHECK(call) succeeds(int(call), #call, __LINE__)

static void succeeds(int got, const char *call, int line)
{
    if (got == 0) return;
    char last[2000] = "";
    cudnnGetLastErrorString(last, sizeof last);
    printf("line %d: %s gave %d: %s\n", line, call, got, last);
    exit(1);
}

static cudnnHandle_t handle;
static std::mt19937 random_number(5);

struct Tensor {
    int n, c, h, w;
    std::vector<float> host;
    float *device;
    cudnnTensorDescriptor_t shape;
    Tensor(int n_, int c_, int h_, int w_)
        : n(n_), c(c_), h(h_), w(w_), host(size_t(n_) * c_ * h_ * w_)
    {
        for (float &x : host) x = float(int(random_number() % 401) - 200) / 100;
        CHECK(cudaMalloc(&device, host.size() * sizeof(float)));
        CHECK(cudaMemcpy(device, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudnnCreateTensorDescriptor(&shape));
        CHECK(cudnnSetTensor4dDescriptor(shape, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, c, h, w));
    }
    ~Tensor()
    {
        cudnnDestroyTensorDescriptor(shape);
        cudaFree(device);
    }
    float &at(int i, int k, int y, int x) { return host[((size_t(i) * c + k) * h + y) * w + x]; }
    // Compares what is on the device with `host`, which the caller has set to what is right.
    void compare(const char *what) const
    {
        std::vector<float> got(host.size());
        CHECK(cudaMemcpy(got.data(), device, got.size() * sizeof(float), cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < got.size(); i++)
            if (!(std::fabs(got[i] - host[i]) <= 2e-5f * (1 + std::fabs(host[i]))))
                printf("%s: %g, not %g, at %zu\n", what, got[i], host[i], i), exit(1);
    }
};

static const float kOne = 1, kZero = 0;

static void softmax()
{
    Tensor x(3, 10, 4, 5), y(3, 10, 4, 5);
    CHECK(cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &kOne,
                              x.shape, x.device, &kZero, y.shape, y.device));
    for (int i = 0; i < x.n; i++)
        for (int r = 0; r < x.h; r++)
            for (int s = 0; s < x.w; s++) {
                double sum = 0;
                for (int k = 0; k < x.c; k++) sum += std::exp(double(x.at(i, k, r, s)));
                for (int k = 0; k < x.c; k++)
                    y.at(i, k, r, s) = float(std::exp(double(x.at(i, k, r, s))) / sum);
            }
    y.compare("softmax");
}

static void activation()
{
    for (auto mode : {CUDNN_ACTIVATION_RELU, CUDNN_ACTIVATION_SIGMOID, CUDNN_ACTIVATION_TANH}) {
        Tensor x(2, 3, 7, 9), y(2, 3, 7, 9);
        cudnnActivationDescriptor_t how;
        CHECK(cudnnCreateActivationDescriptor(&how));
        CHECK(cudnnSetActivationDescriptor(how, mode, CUDNN_NOT_PROPAGATE_NAN, 0));
        CHECK(cudnnActivationForward(handle, how, &kOne, x.shape, x.device, &kZero, y.shape,
                                     y.device));
        for (size_t i = 0; i < x.host.size(); i++) {
            const double v = x.host[i];
            y.host[i] = float(mode == CUDNN_ACTIVATION_RELU   ? std::max(v, 0.0)
                              : mode == CUDNN_ACTIVATION_TANH ? std::tanh(v)
                                                              : 1 / (1 + std::exp(-v)));
        }
        y.compare("activation");
        CHECK(cudnnDestroyActivationDescriptor(how));
    }
}

static void pooling()
{
    for (auto mode : {CUDNN_POOLING_MAX, CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING}) {
        Tensor x(2, 3, 8, 10), y(2, 3, 4, 5);
        cudnnPoolingDescriptor_t how;
        CHECK(cudnnCreatePoolingDescriptor(&how));
        CHECK(cudnnSetPooling2dDescriptor(how, mode, CUDNN_NOT_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2));
        CHECK(
            cudnnPoolingForward(handle, how, &kOne, x.shape, x.device, &kZero, y.shape, y.device));
        for (int i = 0; i < y.n; i++)
            for (int k = 0; k < y.c; k++)
                for (int r = 0; r < y.h; r++)
                    for (int s = 0; s < y.w; s++) {
                        const float v[] = {x.at(i, k, 2 * r, 2 * s), x.at(i, k, 2 * r, 2 * s + 1),
                                           x.at(i, k, 2 * r + 1, 2 * s),
                                           x.at(i, k, 2 * r + 1, 2 * s + 1)};
                        y.at(i, k, r, s) = mode == CUDNN_POOLING_MAX
                                               ? *std::max_element(v, v + 4)
                                               : (v[0] + v[1] + v[2] + v[3]) / 4;
                    }
        y.compare("pooling");
        CHECK(cudnnDestroyPoolingDescriptor(how));
    }
}

static void norm()
{
    Tensor x(4, 3, 5, 6), y(4, 3, 5, 6), scale(1, 3, 1, 1), bias(1, 3, 1, 1), mean(1, 3, 1, 1),
        variance(1, 3, 1, 1);
    CHECK(cudnnBatchNormalizationForwardTraining(handle, CUDNN_BATCHNORM_SPATIAL, &kOne, &kZero,
                                                 x.shape, x.device, y.shape, y.device, scale.shape,
                                                 scale.device, bias.device, 1.0, mean.device,
                                                 variance.device, 1e-5, nullptr, nullptr));
    const int count = x.n * x.h * x.w;
    for (int k = 0; k < x.c; k++) {
        double sum = 0, square = 0;
        for (int i = 0; i < x.n; i++)
            for (int r = 0; r < x.h; r++)
                for (int s = 0; s < x.w; s++)
                    sum += x.at(i, k, r, s), square += double(x.at(i, k, r, s)) * x.at(i, k, r, s);
        const double m = sum / count, v = square / count - m * m;
        mean.host[k] = float(m), variance.host[k] = float(v * count / (count - 1));
        for (int i = 0; i < x.n; i++)
            for (int r = 0; r < x.h; r++)
                for (int s = 0; s < x.w; s++)
                    y.at(i, k, r, s) =
                        float((x.at(i, k, r, s) - m) / std::sqrt(v + 1e-5) * scale.host[k] +
                              bias.host[k]);
    }
    y.compare("batch normalisation");
    mean.compare("running mean");
    variance.compare("running variance");
}

static void convolution()
{
    Tensor x(2, 3, 9, 8), y(2, 4, 9, 8), f(4, 3, 3, 3);
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t how;
    CHECK(cudnnCreateFilterDescriptor(&filter));
    CHECK(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 4, 3, 3, 3));
    CHECK(cudnnCreateConvolutionDescriptor(&how));
    CHECK(cudnnSetConvolution2dDescriptor(how, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                          CUDNN_DATA_FLOAT));
    for (int i = 0; i < y.n; i++)
        for (int k = 0; k < y.c; k++)
            for (int r = 0; r < y.h; r++)
                for (int s = 0; s < y.w; s++) {
                    double sum = 0;
                    for (int c = 0; c < x.c; c++)
                        for (int u = 0; u < 3; u++)
                            for (int v = 0; v < 3; v++) {
                                const int a = r + u - 1, b = s + v - 1;
                                if (a >= 0 && a < x.h && b >= 0 && b < x.w)
                                    sum += double(x.at(i, c, a, b)) * f.at(k, c, u, v);
                            }
                    y.at(i, k, r, s) = float(sum);
                }
    // Every algorithm that says it can.
    int ran = 0;
    for (int algorithm = 0; algorithm < CUDNN_CONVOLUTION_FWD_ALGO_COUNT; algorithm++) {
        const auto a = cudnnConvolutionFwdAlgo_t(algorithm);
        size_t bytes = 0;
        if (cudnnGetConvolutionForwardWorkspaceSize(handle, x.shape, filter, how, y.shape, a,
                                                    &bytes) != CUDNN_STATUS_SUCCESS)
            continue;
        void *workspace = nullptr;
        if (bytes) CHECK(cudaMalloc(&workspace, bytes));
        CHECK(cudaMemset(y.device, 0xFF, y.host.size() * sizeof(float)));
        const auto rc = cudnnConvolutionForward(handle, &kOne, x.shape, x.device, filter, f.device,
                                                how, a, workspace, bytes, &kZero, y.shape,
                                                y.device);
        cudaFree(workspace);
        fprintf(stderr, "algorithm %d: %s\n", algorithm, cudnnGetErrorString(rc));
        if (rc != CUDNN_STATUS_SUCCESS) continue;
        y.compare("convolution");
        ran++;
    }
    if (!ran) printf("no algorithm runs\n"), exit(1);
    CHECK(cudnnDestroyConvolutionDescriptor(how));
    CHECK(cudnnDestroyFilterDescriptor(filter));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    CHECK(cudnnCreate(&handle));
    if (!strcmp(what, "softmax"))
        softmax();
    else if (!strcmp(what, "activation"))
        activation();
    else if (!strcmp(what, "pooling"))
        pooling();
    else if (!strcmp(what, "norm"))
        norm();
    else if (!strcmp(what, "convolution"))
        convolution();
    else
        return printf("which group?\n"), 2;
    CHECK(cudnnDestroy(handle));
    printf("right\n");
}
