// SPDX-License-Identifier: Apache-2.0
/* A program of any CUDA runtime: runtime.c LIBCUDART opens that library and does by hand what nvcc
   has a program do, so that no toolkit of that version need be there.

   The prototypes are those that all versions from 11.0 on have in common. Prints "right", or what
   is wrong. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char kPtx[] =
    ".version 7.0\n.target sm_50\n.address_size 64\n"
    ".visible .global .align 4 .f32 factor = 0f40000000;\n" /* 2.0 */
    ".visible .const .align 4 .f32 offset;\n"
    ".visible .global .attribute(.managed) .align 4 .u32 launches;\n"
    ".visible .entry scale(.param .u64 p, .param .f32 v, .param .u32 n)\n"
    "{\n"
    "  .reg .pred %q; .reg .f32 %f<6>; .reg .b32 %r<6>; .reg .b64 %d<4>;\n"
    "  ld.param.u64 %d0, [p]; ld.param.f32 %f0, [v]; ld.param.u32 %r0, [n];\n"
    "  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
    "  mad.lo.s32 %r4, %r1, %r2, %r3;\n"
    "  setp.ge.s32 %q, %r4, %r0;\n"
    "  @%q ret;\n"
    "  cvta.to.global.u64 %d1, %d0; mul.wide.s32 %d2, %r4, 4; add.s64 %d1, %d1, %d2;\n"
    "  ld.global.f32 %f1, [%d1]; ld.global.f32 %f2, [factor]; ld.const.f32 %f3, [offset];\n"
    "  fma.rn.f32 %f4, %f1, %f2, %f3; add.f32 %f4, %f4, %f0;\n"
    "  st.global.f32 [%d1], %f4;\n"
    "  setp.ne.s32 %q, %r4, 0;\n"
    "  @%q ret;\n"
    "  ld.global.u32 %r5, [launches]; add.s32 %r5, %r5, 1; st.global.u32 [launches], %r5;\n"
    "  ret;\n"
    "}\n";

/* A fat binary as nvcc makes it, of one entry: PTX that is not compressed. */
static struct FatBinary {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
    struct {
        uint16_t kind, version;
        uint32_t header_bytes;
        uint64_t bytes;
        uint32_t compressed, unknown;
        uint16_t minor, major;
        uint32_t arch, name, name_bytes;
        uint64_t flags, zero, uncompressed;
    } entry;
    char ptx[(sizeof kPtx + 7) / 8 * 8];
} binary;
static struct {
    uint32_t magic, version;
    const void *binary, *more;
} wrapper = {0x466243B1, 1, &binary, NULL};

static void *runtime;

static void *find(const char *name)
{
    void *f = dlsym(runtime, name);
    if (!f) printf("no %s\n", name), exit(1);
    return f;
}

static void check(int error, const char *what)
{
    if (!error) return;
    const char *(*text)(int) = find("cudaGetErrorName");
    printf("%s: %s\n", what, text(error));
    exit(1);
}

static void is(double got, double wanted, const char *what)
{
    if (got == wanted) return;
    printf("%s: %g, not %g\n", what, got, wanted);
    exit(1);
}

#define CALL(name, types, ...) check(((int(*) types)find(#name))(__VA_ARGS__), #name)

typedef struct {
    unsigned x, y, z;
} dim3;

enum { kCount = 1000, kToDevice = 1, kToHost = 2 };

/* What the runtime knows kernel and variables by. */
static char scale, factor, offset;
static unsigned *launches;

static void register_all(void)
{
    binary.magic = 0xBA55ED50;
    binary.version = 1;
    binary.header_bytes = 16;
    binary.bytes = sizeof binary - 16;
    binary.entry.kind = 1;
    binary.entry.version = 0x101;
    binary.entry.header_bytes = sizeof binary.entry;
    binary.entry.bytes = sizeof binary.ptx;
    binary.entry.major = 7;
    binary.entry.arch = 50;
    binary.entry.flags = 0x11; /* of 64 bits, for Linux */
    memcpy(binary.ptx, kPtx, sizeof kPtx);

    void **(*fat)(void *) = find("__cudaRegisterFatBinary");
    void (*function)(void **, const void *, char *, const char *, int, void *, void *, void *,
                     void *, int *) = find("__cudaRegisterFunction");
    void (*variable)(void **, char *, char *, const char *, int, size_t, int, int) =
        find("__cudaRegisterVar");
    void (*managed)(void **, void **, char *, const char *, int, size_t, int, int) =
        find("__cudaRegisterManagedVar");
    void (*end)(void **) = find("__cudaRegisterFatBinaryEnd");
    char (*managed_module)(void **) = find("__cudaInitModule");
    void **handle = fat(&wrapper);
    function(handle, &scale, "scale", "scale", -1, NULL, NULL, NULL, NULL, NULL);
    variable(handle, &factor, "factor", "factor", 0, 4, 0, 0);
    variable(handle, &offset, "offset", "offset", 0, 4, 1, 0);
    managed(handle, (void **)&launches, "launches", "launches", 0, 4, 0, 0);
    end(handle);
    managed_module(handle);
}

static void launch(float *p, float v, void *stream)
{
    int n = kCount;
    void *arguments[] = {&p, &v, &n};
    const dim3 grid = {(kCount + 127) / 128, 1, 1}, block = {128, 1, 1};
    CALL(cudaLaunchKernel, (const void *, dim3, dim3, void **, size_t, void *), &scale, grid, block,
         arguments, 0, stream);
}

int main(int argc, char **argv)
{
    runtime = dlopen(argc > 1 ? argv[1] : "libcudart.so", RTLD_NOW);
    if (!runtime) return printf("%s\n", dlerror()), 1;
    register_all();

    int version = 0, count = 0;
    CALL(cudaRuntimeGetVersion, (int *), &version);
    CALL(cudaGetDeviceCount, (int *), &count);
    CALL(cudaSetDevice, (int), count - 1);

    float host[kCount], *p = NULL, value = 10;
    for (int i = 0; i < kCount; i++) host[i] = (float)i;
    CALL(cudaMalloc, (void **, size_t), (void **)&p, sizeof host);
    CALL(cudaMemcpy, (void *, const void *, size_t, int), p, host, sizeof host, kToDevice);
    CALL(cudaMemcpyToSymbol, (const void *, const void *, size_t, size_t, int), &offset, &value, 4,
         0, kToDevice);
    launch(p, 1, NULL);
    CALL(cudaMemcpy, (void *, const void *, size_t, int), host, p, sizeof host, kToHost);
    is(host[0], 11, "the first");
    is(host[kCount - 1], 2 * (kCount - 1) + 11, "the last");
    is(*launches, 1, "the managed variable");

    value = 0;
    CALL(cudaMemcpyFromSymbol, (void *, const void *, size_t, size_t, int), &value, &factor, 4, 0,
         kToHost);
    is(value, 2, "the variable");
    char attributes[1024];
    CALL(cudaFuncGetAttributes, (void *, const void *), attributes, &scale);
    int blocks = 0;
    CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
         (int *, const void *, int, size_t, unsigned), &blocks, &scale, 128, 0, 0);
    is(blocks > 0, 1, "blocks of a multiprocessor");

    /* A graph. Up to 11, cudaGraphInstantiate takes a place for a node and a log; then, flags. */
    void *stream, *graph, *exec;
    CALL(cudaStreamCreate, (void **), &stream);
    CALL(cudaStreamBeginCapture, (void *, int), stream, 0);
    launch(p, 0, stream);
    CALL(cudaStreamEndCapture, (void *, void **), stream, &graph);
    CALL(cudaGraphInstantiate, (void **, void *, void *, void *, size_t), &exec, graph, NULL, NULL,
         0);
    CALL(cudaGraphLaunch, (void *, void *), exec, stream);
    CALL(cudaGraphLaunch, (void *, void *), exec, stream);
    CALL(cudaStreamSynchronize, (void *), stream);
    CALL(cudaMemcpy, (void *, const void *, size_t, int), host, p, sizeof host, kToHost);
    is(host[0], (11 * 2 + 10) * 2 + 10, "what the graph did");
    is(*launches, 3, "the managed variable, then");
    CALL(cudaGraphExecDestroy, (void *), exec);
    CALL(cudaGraphDestroy, (void *), graph);
    CALL(cudaStreamDestroy, (void *), stream);

    /* What a program that goes on after a reset finds. */
    CALL(cudaDeviceReset, (void), );
    CALL(cudaMalloc, (void **, size_t), (void **)&p, sizeof host);
    CALL(cudaMemset, (void *, int, size_t), p, 0, sizeof host);
    launch(p, 5, NULL);
    CALL(cudaMemcpy, (void *, const void *, size_t, int), host, p, sizeof host, kToHost);
    is(host[7], 5, "after a reset");
    CALL(cudaFree, (void *), p);
    printf("right, with CUDA %d.%d\n", version / 1000, version % 1000 / 10);
    return 0;
}
