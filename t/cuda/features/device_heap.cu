// SPDX-License-Identifier: Apache-2.0
// malloc() and free() in kernels, new and virtual functions, recursion, and the heap's limit.
#include "check.h"

struct Shape {
    __device__ virtual float area() const = 0;
    __device__ virtual ~Shape() {}
};
struct Square : Shape {
    float a;
    __device__ Square(float x) : a(x) {}
    __device__ float area() const override { return a * a; }
};
struct Circle : Shape {
    float r;
    __device__ Circle(float x) : r(x) {}
    __device__ float area() const override { return 3 * r * r; }
};

__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

__global__ void shapes(float *out)
{
    Shape *s = threadIdx.x % 2 ? (Shape *)new Square(threadIdx.x) : new Circle(threadIdx.x);
    out[threadIdx.x] = s->area() + fibonacci(threadIdx.x % 12);
    delete s;
}

struct Node {
    Node *next;
    int value;
};
__device__ Node *list;
__global__ void push()
{
    Node *n = (Node *)malloc(sizeof(Node));
    n->value = blockIdx.x * blockDim.x + threadIdx.x;
    Node *old = list;
    do n->next = old;
    while ((old = (Node *)atomicCAS((unsigned long long *)&list, (unsigned long long)n->next,
                                    (unsigned long long)n)) != (Node *)n->next);
}
__global__ void walk(int *out)
{
    int sum = 0;
    while (list) {
        Node *n = list;
        sum += n->value;
        list = n->next;
        free(n);
    }
    *out = sum;
}
__global__ void too_much(int *out) { *out = malloc(size_t{1} << 40) == nullptr; }

__global__ void without(int *out) { *out = 5; }

int main()
{
    // The heap has its size once a kernel has used it, not before.
    int *early;
    CHECK(cudaMalloc(&early, 4));
    without<<<1, 1>>>(early);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 32 << 20));
    size_t limit = 0;
    CHECK(cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize));
    TRUE(limit == 32 << 20);
    float *out, got[64];
    CHECK(cudaMalloc(&out, 256));
    shapes<<<1, 64>>>(out);
    CHECK(cudaMemcpy(got, out, 256, cudaMemcpyDeviceToHost));
    const int f[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
    for (int i = 0; i < 64; i++) TRUE(got[i] == (i % 2 ? 1 : 3) * i * i + f[i % 12]);
    int *sum, n = 0;
    CHECK(cudaMalloc(&sum, 4));
    push<<<10, 100>>>();
    walk<<<1, 1>>>(sum);
    CHECK(cudaMemcpy(&n, sum, 4, cudaMemcpyDeviceToHost));
    TRUE(n == 999 * 1000 / 2);
    too_much<<<1, 1>>>(sum);
    CHECK(cudaMemcpy(&n, sum, 4, cudaMemcpyDeviceToHost));
    TRUE(n == 1);
    FAILS(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 64 << 20), cudaErrorInvalidValue);
    return right();
}
