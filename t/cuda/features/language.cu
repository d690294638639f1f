// SPDX-License-Identifier: Apache-2.0
// C++ as programs write it: virtual functions, closures, recursion, new and delete, tables of
// functions, wide integers, large parameters, inline PTX, static and constant data that points to
// other data.
#include "check.h"

#include <cuda/std/functional>
#include <cuda/std/type_traits>
#include <cuda/std/utility>

// --- classes with virtual functions, made and ended on the device

struct Shape {
    __device__ virtual float area() const = 0;
    __device__ virtual int corners() const { return 0; }
    __device__ virtual ~Shape() { atomicAdd(ended, 1); }
    int *ended;
};
struct Square : Shape {
    float side;
    __device__ Square(float s) : side(s) {}
    __device__ float area() const override { return side * side; }
    __device__ int corners() const override { return 4; }
};
struct Circle : Shape {
    float radius;
    __device__ Circle(float r) : radius(r) {}
    __device__ float area() const override { return 3 * radius * radius; }
};
struct Named {
    __device__ virtual int name() const { return 7; }
    int pad = 5;
};
struct Both : Named, Square {
    __device__ Both(float s) : Square(s) {}
    __device__ int name() const override { return 70 + pad; }
    __device__ float area() const override { return Square::area() + 1; }
};

__global__ void shapes(float *areas, int *corners, int *ended)
{
    const int i = threadIdx.x;
    Shape *s;
    Both *both = nullptr;
    switch (i % 3) {
    case 0: s = new Square(i); break;
    case 1: s = new Circle(i); break;
    default: s = both = new Both(i); break;
    }
    s->ended = ended;
    __syncwarp();
    areas[i] = s->area() + (both ? static_cast<Named *>(both)->name() : 0);
    corners[i] = s->corners();
    delete s;
}

// --- functions in tables: in constant memory, in device memory, as members, as arguments

using Op = int (*)(int, int);
__device__ int plus(int a, int b) { return a + b; }
__device__ int minus(int a, int b) { return a - b; }
__device__ __noinline__ int times(int a, int b) { return a * b; }
__constant__ Op constant_ops[] = {plus, minus, times};
__device__ Op device_ops[3] = {times, plus, minus};
__device__ Op chosen = plus;
struct Calculator {
    int bias;
    __device__ __noinline__ int add(int x) { return bias + x; }
    __device__ __noinline__ int scale(int x) { return bias * x; }
};
template <class F> __device__ __noinline__ int apply(F f, int x) { return f(x); }

__global__ void functions(int *out)
{
    const int i = threadIdx.x;
    int (Calculator::*member)(int) = i % 2 ? &Calculator::add : &Calculator::scale;
    Calculator c{i};
    out[i] = constant_ops[i % 3](i, 3) + 1000 * device_ops[i % 3](i, 2) + (c.*member)(5) +
             apply([=](int x) { return chosen(x, i); }, 100000);
}
static int functions_on_host(int i)
{
    const int three[] = {i + 3, i - 3, i * 3}, two[] = {i * 2, i + 2, i - 2};
    return three[i % 3] + 1000 * two[i % 3] + (i % 2 ? i + 5 : i * 5) + 100000 + i;
}

// --- recursion, alone and mutual

__host__ __device__ inline int ackermann(int m, int n)
{
    return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}
__host__ __device__ inline bool is_even(unsigned n);
__host__ __device__ inline bool is_odd(unsigned n) { return n ? is_even(n - 1) : false; }
__host__ __device__ inline bool is_even(unsigned n) { return n ? is_odd(n - 1) : true; }
template <int n> struct Fibonacci {
    static constexpr int value = Fibonacci<n - 1>::value + Fibonacci<n - 2>::value;
};
template <> struct Fibonacci<0> {
    static constexpr int value = 0;
};
template <> struct Fibonacci<1> {
    static constexpr int value = 1;
};
__device__ void sort(int *v, int low, int high)
{
    if (low >= high) return;
    int i = low, j = high;
    const int pivot = v[(low + high) / 2];
    while (i <= j) {
        while (v[i] < pivot) i++;
        while (v[j] > pivot) j--;
        if (i <= j) cuda::std::swap(v[i++], v[j--]);
    }
    sort(v, low, j);
    sort(v, i, high);
}
__global__ void recursion(int *out, int *to_sort)
{
    out[threadIdx.x] = ackermann(2, threadIdx.x) + is_even(threadIdx.x) + Fibonacci<20>::value;
    sort(to_sort + 64 * threadIdx.x, 0, 63);
}

// --- parameters by value: 4 KiB, odd sizes, arrays of structures

struct Odd {
    char a;
    short b;
    char c[5];
    double d;
    bool e;
};
struct Large {
    int v[900];
    Odd odd[3];
};
__global__ void by_value(const __grid_constant__ Large large, char c, Odd odd, short s, double *out)
{
    const Odd *inside = &large.odd[threadIdx.x % 3];
    out[threadIdx.x] = large.v[threadIdx.x * 7 % 900] + inside->d + inside->c[4] + odd.b +
                       odd.c[2] + odd.e + c + s;
}

// --- integers of 128 bits, bit fields, unions

union Mixed {
    float f;
    unsigned u;
    unsigned char b[4];
};
struct Fields {
    unsigned a : 3, b : 13, : 0;
    int c : 5;
    unsigned long long d : 40;
};
__global__ void integers(const unsigned long long *in, unsigned long long *out)
{
    const int i = threadIdx.x;
    const __int128 a = (static_cast<__int128>(static_cast<long long>(in[i])) << 50) - in[i + 1];
    const unsigned __int128 b = static_cast<unsigned __int128>(in[i + 2]) * in[i + 3];
    const __int128 q = a / static_cast<long long>(in[i + 1] | 1);
    out[8 * i + 0] = static_cast<unsigned long long>(q);
    out[8 * i + 1] = static_cast<unsigned long long>(q >> 64);
    out[8 * i + 2] = static_cast<unsigned long long>(b % (in[i] | 3));
    out[8 * i + 3] = static_cast<unsigned long long>(b >> 61);
    Mixed m;
    m.u = static_cast<unsigned>(in[i]) | 0x40000000;
    m.b[3] &= 0x4f;
    Fields f;
    f.a = i;
    f.b = i * 100;
    f.c = i;
    f.d = in[i];
    out[8 * i + 4] = m.u + f.a * 3ull + f.b * 5ull + static_cast<long long>(f.c) * 7 + f.d;
    out[8 * i + 5] = static_cast<unsigned long long>(m.f > 1);
    out[8 * i + 6] = in[i] / (in[i + 1] >> 40 | 1) + in[i] % (in[i + 2] >> 33 | 1);
    out[8 * i + 7] = static_cast<unsigned long long>(static_cast<long long>(in[i]) /
                                                     (static_cast<int>(in[i + 3]) | 1));
}

// --- data that points to data

struct Node {
    int value;
    const Node *next;
};
__device__ Node third{3, nullptr}, second{20, &third}, first{100, &second};
__constant__ const char *const words[] = {"alpha", "be", "", "delta"};
__device__ int table[4][3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, 12}};
__device__ int *middle = &table[2][1];
__device__ int counted()
{
    static int calls = 5;
    return atomicAdd(&calls, 1);
}
__global__ void pointers(int *out)
{
    int sum = 0;
    for (const Node *n = &first; n; n = n->next) sum += n->value;
    int length = 0;
    for (const char *w : words)
        while (*w++) length++;
    out[0] = sum, out[1] = length, out[2] = *middle, out[3] = middle[-1];
    counted();
    out[4] = counted();
}

// --- inline PTX

__global__ void inline_ptx(unsigned *out, const float *in)
{
    const unsigned i = threadIdx.x;
    unsigned lane, sum, carry, prmt;
    float f;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm("{\n\t.reg .u32 t;\n\tadd.cc.u32 t, %2, %3;\n\taddc.u32 %1, 0, 0;\n\tmov.u32 %0, t;\n\t}"
        : "=r"(sum), "=r"(carry)
        : "r"(0xfffffff0u), "r"(i));
    asm("prmt.b32 %0, %1, %2, 0x0123;" : "=r"(prmt) : "r"(i * 0x01020304), "r"(0));
    asm("{ .reg .pred p; setp.gt.f32 p, %1, 0f40000000; selp.f32 %0, %1, 0f3F800000, p; }"
        : "=f"(f)
        : "f"(in[i]));
    asm("{ .reg .b32 r; ld.global.nc.f32 r, [%1+4]; add.f32 %0, %0, r; }" : "+f"(f) : "l"(in + i));
    short h;
    asm("cvt.s16.s32 %0, %1;" : "=h"(h) : "r"(i * 3));
    double d;
    asm("cvt.f64.f32 %0, %1;" : "=d"(d) : "f"(f));
    out[i] = lane + sum + carry * 2 + prmt + static_cast<unsigned>(f) + h +
             static_cast<unsigned>(d);
}

// --- control flow that compilers make tables, loops and jumps of

__host__ __device__ inline int interpret(const unsigned char *code, int x)
{
    for (int at = 0;; at++) {
        switch (code[at]) {
        case 0: return x;
        case 1: x++; break;
        case 2: x *= 3; break;
        case 3: x -= 7; break;
        case 4:
            if (x & 1) goto odd;
            break;
        case 5: x ^= 0x55; continue;
        case 6: x = x << 3 | (x & 0xff) >> 5; break;
        case 7:
            at++;
            x += code[at];
            break;
        case 8: x = -x; break;
        case 9:
            do x /= 2;
            while (x > 100);
            break;
        default: return -1;
        }
        continue;
    odd:
        x += 1000;
    }
}
__global__ void programs(const unsigned char *code, int *out)
{
    out[threadIdx.x] = interpret(code + 16 * (threadIdx.x % 8), threadIdx.x);
}

template <class T> T *device(size_t n, const T *from = nullptr)
{
    T *p;
    CHECK(cudaMalloc(&p, n * sizeof(T)));
    if (from)
        CHECK(cudaMemcpy(p, from, n * sizeof(T), cudaMemcpyHostToDevice));
    else
        CHECK(cudaMemset(p, 0, n * sizeof(T)));
    return p;
}
template <class T> std::vector<T> get(const T *p, size_t n)
{
    std::vector<T> out(n);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(out.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
    return out;
}

int main()
{
    // Recursion needs more than the 1024 bytes that a thread's stack has at first.
    CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 16 << 10));
    int *ints = device<int>(8192), *ended = device<int>(1);
    float *floats = device<float>(64);
    shapes<<<1, 64>>>(floats, ints, ended);
    auto areas = get(floats, 64);
    auto corners = get(ints, 64);
    TRUE(get(ended, 1)[0] == 64);
    for (int i = 0; i < 64; i++) {
        TRUE(areas[i] == (i % 3 == 0 ? float(i * i) : i % 3 == 1 ? 3.0f * i * i : i * i + 1 + 75));
        TRUE(corners[i] == (i % 3 == 1 ? 0 : 4));
    }

    functions<<<1, 96>>>(ints);
    auto got = get(ints, 96);
    for (int i = 0; i < 96; i++) TRUE(got[i] == functions_on_host(i));

    std::vector<int> shuffled(32 * 64);
    for (size_t i = 0; i < shuffled.size(); i++) shuffled[i] = int(i * 7919 % 1000);
    int *to_sort = device(shuffled.size(), shuffled.data());
    recursion<<<1, 32>>>(ints, to_sort);
    got = get(ints, 32);
    for (int i = 0; i < 32; i++) TRUE(got[i] == ackermann(2, i) + (i % 2 == 0) + 6765);
    got = get(to_sort, shuffled.size());
    for (size_t i = 1; i < got.size(); i++) TRUE(i % 64 == 0 || got[i - 1] <= got[i]);

    Large large;
    for (int i = 0; i < 900; i++) large.v[i] = i * i;
    for (int i = 0; i < 3; i++)
        large.odd[i] = {char(i), short(i), {1, 2, 3, 4, char(i + 5)}, i + 0.5, true};
    const Odd odd{1, -300, {0, 0, 9}, 2.5, true};
    double *doubles = device<double>(64);
    by_value<<<1, 64>>>(large, -3, odd, 77, doubles);
    auto numbers = get(doubles, 64);
    for (int i = 0; i < 64; i++)
        TRUE(numbers[i] == large.v[i * 7 % 900] + i % 3 + 0.5 + i % 3 + 5 - 300 + 9 + 1 - 3 + 77);

    std::vector<unsigned long long> in(64);
    unsigned long long seed = 88172645463325252ull;
    for (auto &v : in) seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17, v = seed;
    auto *wide = device(64, in.data()), *wide_out = device<unsigned long long>(8 * 32);
    integers<<<1, 32>>>(wide, wide_out);
    auto w = get(wide_out, 8 * 32);
    for (int i = 0; i < 32; i++) {
        const __int128 a = (static_cast<__int128>(static_cast<long long>(in[i])) << 50) - in[i + 1];
        const unsigned __int128 b = static_cast<unsigned __int128>(in[i + 2]) * in[i + 3];
        const __int128 q = a / static_cast<long long>(in[i + 1] | 1);
        TRUE(w[8 * i] == static_cast<unsigned long long>(q) &&
             w[8 * i + 1] == static_cast<unsigned long long>(q >> 64));
        TRUE(w[8 * i + 2] == static_cast<unsigned long long>(b % (in[i] | 3)) &&
             w[8 * i + 3] == static_cast<unsigned long long>(b >> 61));
        Mixed m;
        m.u = unsigned(in[i]) | 0x40000000;
        m.b[3] &= 0x4f;
        Fields f;
        f.a = i, f.b = i * 100, f.c = i, f.d = in[i];
        TRUE(w[8 * i + 4] == m.u + f.a * 3ull + f.b * 5ull + static_cast<long long>(f.c) * 7 + f.d);
        TRUE(w[8 * i + 5] == (m.f > 1));
        TRUE(w[8 * i + 6] == in[i] / (in[i + 1] >> 40 | 1) + in[i] % (in[i + 2] >> 33 | 1));
        TRUE(w[8 * i + 7] == static_cast<unsigned long long>(static_cast<long long>(in[i]) /
                                                             (static_cast<int>(in[i + 3]) | 1)));
    }

    pointers<<<1, 1>>>(ints);
    got = get(ints, 5);
    TRUE(got[0] == 123 && got[1] == 12 && got[2] == 8 && got[3] == 7 && got[4] == 6);

    std::vector<float> fs(65);
    for (int i = 0; i < 65; i++) fs[i] = i * 0.25f;
    float *in_floats = device(65, fs.data());
    unsigned *us = device<unsigned>(64);
    inline_ptx<<<1, 64>>>(us, in_floats);
    auto u = get(us, 64);
    for (unsigned i = 0; i < 64; i++) {
        const float f = (fs[i] > 2 ? fs[i] : 1) + fs[i + 1];
        TRUE(u[i] == i % 32 + (0xfffffff0u + i) + (i >= 16) * 2 +
                         __builtin_bswap32(i * 0x01020304) + 2 * unsigned(f) + short(i * 3));
    }

    std::vector<unsigned char> code(
        144);  // a program may take its own end for an operand, and goes on into the next
    for (int p = 0; p < 8; p++)
        for (int i = 0; i < 15; i++)
            code[16 * p + i] = (p * 5 + i * 3) % 10 ? (p * 5 + i * 3) % 10 : 1;
    auto *device_code = device(144, code.data());
    programs<<<1, 256>>>(device_code, ints);
    got = get(ints, 256);
    for (int i = 0; i < 256; i++) TRUE(got[i] == interpret(code.data() + 16 * (i % 8), i));
    return right();
}
