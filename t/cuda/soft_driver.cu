// SPDX-License-Identifier: Apache-2.0
// The driver API used directly, as Python frameworks do: a context of one's own, PTX text,
// arguments in a buffer; what the linker makes; and what wrong input is told. With an argument it
// does one thing for a script:
//   names          the devices' UUIDs, one a line
//   hold BYTES     allocates so much on device 0, says "held" or the error's name, and waits for
//   its end
#include <cuda.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#define CHECK(call) expect(call, CUDA_SUCCESS, #call, __LINE__)
#define FAILS(call, error) expect(call, error, #call, __LINE__)
#define TRUE(x) \
    do \
        if (!(x)) printf("line %d: not true: %s\n", __LINE__, #x), exit(1); \
    while (0)

static const char *name(CUresult rc)
{
    const char *text = "?";
    cuGetErrorName(rc, &text);
    return text;
}

static void expect(CUresult got, CUresult wanted, const char *call, int line)
{
    if (got == wanted) return;
    printf("line %d: %s gave %s, not %s\n", line, call, name(got), name(wanted));
    exit(1);
}

static const char kPtx[] = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 step = 3;
.visible .entry add(.param .u64 p, .param .u32 n, .param .u64 more)
{
    .reg .pred %p;
    .reg .b32 %r<8>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [p];
    ld.param.u32 %r1, [n];
    ld.param.u64 %rd3, [more];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r2, %r2, %r3, %r4;
    setp.ge.u32 %p, %r2, %r1;
    @%p bra done;
    cvta.to.global.u64 %rd1, %rd1;
    mul.wide.u32 %rd2, %r2, 4;
    add.s64 %rd1, %rd1, %rd2;
    ld.global.u32 %r5, [step];
    cvt.u32.u64 %r6, %rd3;
    add.u32 %r5, %r5, %r6;
    st.global.u32 [%rd1], %r5;
done:
    ret;
}
)";

// Two modules of which one calls the other; each has a `hidden` of its own.
static const char kCalled[] = R"(
.version 8.0
.target sm_80
.address_size 64
.global .align 4 .u32 hidden = 100;
.weak .global .align 4 .u32 both = 5;
.visible .func (.param .b32 out) adds_hidden(.param .b32 in)
{
    .reg .b32 %r<4>;
    ld.param.u32 %r1, [in];
    ld.global.u32 %r2, [hidden];
    add.u32 %r1, %r1, %r2;
    st.param.b32 [out], %r1;
    ret;
}
)";
static const char kCaller[] = R"(
.version 7.5
.target sm_75
.address_size 64
.global .align 4 .u32 hidden = 20;
.weak .global .align 4 .u32 both = 5;
.extern .func (.param .b32 out) adds_hidden(.param .b32 in);
.visible .entry calls(.param .u64 p)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p];
    cvta.to.global.u64 %rd1, %rd1;
    ld.global.u32 %r1, [hidden];
    ld.global.u32 %r3, [both];
    add.u32 %r1, %r1, %r3;
    {
        .param .b32 in;
        .param .b32 out;
        st.param.b32 [in], %r1;
        call.uni (out), adds_hidden, (in);
        ld.param.b32 %r2, [out];
    }
    st.global.u32 [%rd1], %r2;
    ret;
}
)";

// Launches `add` over n numbers, in the way that tinygrad does, and checks what it wrote.
static void run_add(CUmodule module, uint64_t more)
{
    const int n = 1000;
    CUfunction f;
    CUdeviceptr d;
    CHECK(cuModuleGetFunction(&f, module, "add"));
    CHECK(cuMemAlloc(&d, n * 4));
    struct {
        CUdeviceptr p;
        unsigned n;
        unsigned pad;
        uint64_t more;
    } arguments = {d, n, 0, more};
    size_t bytes = sizeof arguments;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, CU_LAUNCH_PARAM_END};
    CHECK(cuLaunchKernel(f, (n + 127) / 128, 1, 1, 128, 1, 1, 0, nullptr, nullptr, extra));
    memset(&arguments, 0xff, sizeof arguments);  // it was read at once
    unsigned out[n];
    CHECK(cuMemcpyDtoH(out, d, sizeof out));
    for (unsigned x : out) TRUE(x == 3 + more);

    void *pointers[] = {&d, (void *)&n, &more};
    more = 10;
    CHECK(cuLaunchKernel(f, (n + 127) / 128, 1, 1, 128, 1, 1, 0, nullptr, pointers, nullptr));
    CHECK(cuMemcpyDtoH(out, d, sizeof out));
    for (unsigned x : out) TRUE(x == 13);
    // As NCCL does: a parameter's end, which the kernel does not look at, is left out.
    arguments = {d, n, 0, 20 | uint64_t{1} << 32};
    bytes = 20;
    CHECK(cuLaunchKernel(f, (n + 127) / 128, 1, 1, 128, 1, 1, 0, nullptr, nullptr, extra));
    CHECK(cuMemcpyDtoH(out, d, sizeof out));
    for (unsigned x : out) TRUE(x == 23);
    bytes = 16;  // a whole parameter is missing
    FAILS(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra),
          CUDA_ERROR_INVALID_VALUE);
    bytes = 8;
    FAILS(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra),
          CUDA_ERROR_INVALID_VALUE);
    FAILS(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
          CUDA_ERROR_INVALID_VALUE);

    size_t offset, size;
    CHECK(cuFuncGetParamInfo(f, 1, &offset, &size));
    TRUE(offset == 8 && size == 4);
    CHECK(cuFuncGetParamInfo(f, 2, &offset, &size));
    TRUE(offset == 16 && size == 8);
    FAILS(cuFuncGetParamInfo(f, 3, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemFree(d));
}

static void modules()
{
    CUmodule m;
    CUdeviceptr step;
    size_t bytes;
    CHECK(cuModuleLoadData(&m, kPtx));
    run_add(m, 4);
    CHECK(cuModuleGetGlobal(&step, &bytes, m, "step"));
    TRUE(bytes == 4);
    unsigned value = 0;
    CHECK(cuMemcpyDtoH(&value, step, 4));
    TRUE(value == 3);
    CUfunction f;
    FAILS(cuModuleGetFunction(&f, m, "subtract"), CUDA_ERROR_NOT_FOUND);
    FAILS(cuModuleGetGlobal(&step, &bytes, m, "add"), CUDA_ERROR_NOT_FOUND);
    CHECK(cuModuleUnload(m));
    FAILS(cuModuleUnload(m), CUDA_ERROR_INVALID_HANDLE);

    CUlinkState link;
    void *image;
    CHECK(cuLinkCreate(0, nullptr, nullptr, &link));
    CHECK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)kPtx, sizeof kPtx, "add.ptx", 0, nullptr,
                        nullptr));
    CHECK(cuLinkComplete(link, &image, &bytes));
    const std::string stored((const char *)image, bytes);
    CHECK(cuLinkDestroy(link));
    CHECK(cuModuleLoadData(&m, stored.data()));
    run_add(m, 5);
    CHECK(cuModuleUnload(m));
}

static void modules_are_linked()
{
    CUlinkState link;
    CUmodule m;
    CUfunction f;
    CUdeviceptr d;
    void *image;
    size_t bytes;
    CHECK(cuLinkCreate(0, nullptr, nullptr, &link));
    CHECK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)kCaller, sizeof kCaller, "caller", 0,
                        nullptr, nullptr));
    CHECK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)kCalled, sizeof kCalled, "called", 0,
                        nullptr, nullptr));
    CHECK(cuLinkComplete(link, &image, &bytes));
    const std::string stored((const char *)image, bytes);
    CHECK(cuLinkDestroy(link));
    CHECK(cuModuleLoadData(&m, stored.data()));
    CHECK(cuModuleGetFunction(&f, m, "calls"));
    CHECK(cuMemAlloc(&d, 4));
    void *arguments[] = {&d};
    CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
    unsigned out = 0;
    CHECK(cuMemcpyDtoH(&out, d, 4));
    TRUE(out == 125);
    CHECK(cuMemFree(d));
    CHECK(cuModuleUnload(m));

    // A name that two modules define.
    char log[400] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    CHECK(cuLinkCreate(2, options, values, &link));
    CHECK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)kCalled, sizeof kCalled, "called", 0,
                        nullptr, nullptr));
    CHECK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)kCalled, sizeof kCalled, "called", 0,
                        nullptr, nullptr));
    TRUE(cuLinkComplete(link, &image, &bytes) != CUDA_SUCCESS);
    TRUE(strstr(log, "adds_hidden"));
    CHECK(cuLinkDestroy(link));
}

static void bad_images()
{
    CUmodule m;
    std::string text = kPtx;
    text.replace(text.find("add.u32 %r5"), 7, "add.u32 )");
    char log[400] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    TRUE(cuModuleLoadDataEx(&m, text.c_str(), 2, options, values) != CUDA_SUCCESS);
    TRUE(strstr(log, "PTX line") && (size_t)values[1] == strlen(log) + 1);
    TRUE(cuModuleLoadData(&m, ".version 8.0 .target sm_80 .address_size 64 .entry k( {") !=
         CUDA_SUCCESS);
    FAILS(cuModuleLoadData(&m, "nonsense that is no PTX"), CUDA_ERROR_INVALID_IMAGE);
    FAILS(cuModuleLoadData(&m, "\x7f"
                               "ELF machine code     "),
          CUDA_ERROR_NO_BINARY_FOR_GPU);
    FAILS(cuModuleLoad(&m, "/nonexistent/file.ptx"), CUDA_ERROR_FILE_NOT_FOUND);
}

static void contexts()
{
    CUcontext a, b, current;
    CUdevice d;
    CHECK(cuCtxGetCurrent(&current));
    TRUE(!current);
    CUdeviceptr p;
    FAILS(cuMemAlloc(&p, 4), CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuDeviceGet(&d, 0));
    CHECK(cuCtxCreate(&a, nullptr, 0, d));
    CHECK(cuCtxCreate(&b, nullptr, 0, d));
    CHECK(cuCtxGetCurrent(&current));
    TRUE(current == b);
    std::thread([&] {
        CUcontext here;
        CHECK(cuCtxGetCurrent(&here));
        TRUE(!here);
        CHECK(cuCtxSetCurrent(a));
        CHECK(cuMemAlloc(&p, 4));
    }).join();
    CUcontext owner;
    CHECK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, p));
    TRUE(owner == a);
    CHECK(cuCtxDestroy(b));
    CHECK(cuCtxGetCurrent(&current));
    TRUE(current == a);
    CHECK(cuCtxDestroy(a));
    FAILS(cuCtxSetCurrent(a), CUDA_ERROR_INVALID_CONTEXT);
    FAILS(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, p), CUDA_ERROR_INVALID_VALUE);
}

static void entry_points()
{
    void *f = nullptr, *g = nullptr;
    CUdriverProcAddressQueryResult found;
    CHECK(cuGetProcAddress("cuMemAlloc", &f, 3020, 0, &found));
    TRUE(f == (void *)cuMemAlloc && found == CU_GET_PROC_ADDRESS_SUCCESS);
    CHECK(cuGetProcAddress("cuStreamSynchronize", &f, 12000,
                           CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &found));
    CHECK(cuGetProcAddress("cuStreamSynchronize", &g, 12000, 0, &found));
    TRUE(f && g && f != g);
    CHECK(cuGetProcAddress("cuNoSuchCall", &f, 12000, 0, &found));
    TRUE(!f && found == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    CHECK(cuGetProcAddress("cuLibraryLoadData", &f, 11000, 0, &found));
    TRUE(!f && found == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    CUsurfObject s;
    FAILS(cuSurfObjectCreate(&s, nullptr), CUDA_ERROR_NOT_SUPPORTED);
}

static void forked_child()
{
    fflush(stdout);
    const pid_t child = fork();
    if (!child) {
        int n;
        _exit(cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                      cuDeviceGetCount(&n) == CUDA_ERROR_NOT_INITIALIZED
                  ? 0
                  : 1);
    }
    int status;
    waitpid(child, &status, 0);
    TRUE(status == 0);
}

static int hold(size_t bytes)
{
    CUcontext c;
    CUdevice d;
    CUdeviceptr p = 0;
    CHECK(cuDeviceGet(&d, 0));
    CHECK(cuCtxCreate(&c, nullptr, 0, d));
    const CUresult rc = cuMemAlloc(&p, bytes);
    size_t free, total;
    CHECK(cuMemGetInfo(&free, &total));
    printf("%s %zu MiB free at %llx\n", rc ? name(rc) : "held", free >> 20, p);
    fflush(stdout);
    while (getchar() != EOF) {}
    return 0;
}

int main(int argc, char **argv)
{
    int n;
    FAILS(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
    CHECK(cuInit(0));
    if (argc == 3 && !strcmp(argv[1], "hold")) return hold(strtoull(argv[2], nullptr, 0));
    CHECK(cuDeviceGetCount(&n));
    if (argc == 2 && !strcmp(argv[1], "names")) {
        for (int i = 0; i < n; i++) {
            CUuuid u;
            CHECK(cuDeviceGetUuid(&u, i));
            printf("GPU-");
            for (int k = 0; k < 16; k++)
                printf("%s%02x", k == 4 || k == 6 || k == 8 || k == 10 ? "-" : "",
                       (unsigned char)u.bytes[k]);
            printf("\n");
        }
        return 0;
    }
    contexts();
    entry_points();
    CUcontext c;
    CUdevice d;
    CHECK(cuDeviceGet(&d, 0));
    CHECK(cuCtxCreate(&c, nullptr, 0, d));
    modules();
    modules_are_linked();
    bad_images();
    forked_child();
    printf("soft_driver: ok\n");
}
