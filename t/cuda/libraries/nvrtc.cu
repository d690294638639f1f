// SPDX-License-Identifier: Apache-2.0
// What NVRTC makes for compute_90 of the toolkit's headers: clusters of one block, bulk copies with
// mbarriers, group reductions, wmma, fp8, programmatic launches. Needs a device of 9.0.
#include "../check.h"

#include <cuda.h>
#include <nvrtc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

static const char *source = R"(
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda/ptx>
#include <cuda/barrier>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <mma.h>
namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;
extern "C" __global__ void __cluster_dims__(1,1,1) cluster(int *out)
{
    auto c = cg::this_cluster();
    __shared__ int room[64];
    room[threadIdx.x] = threadIdx.x;
    c.sync();
    int *other = c.map_shared_rank(room, 0);
    out[threadIdx.x] = other[63 - threadIdx.x] + c.num_blocks() * 1000 + c.block_rank();
}
// A bulk copy in, doubled, a bulk copy out.
extern "C" __global__ void bulk(const int *in, int *out)
{
    __shared__ alignas(128) int room[256];
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    if (threadIdx.x == 0) { init(&bar, blockDim.x); ptx::fence_proxy_async(ptx::space_shared); }
    __syncthreads();
    cuda::barrier<cuda::thread_scope_block>::arrival_token token;
    if (threadIdx.x == 0) {
        cuda::device::memcpy_async_tx(room, in + 256 * blockIdx.x, cuda::aligned_size_t<16>(1024),
                                      bar);
        token = cuda::device::barrier_arrive_tx(bar, 1, 1024);
    } else token = bar.arrive();
    bar.wait(cuda::std::move(token));
    for (int i = threadIdx.x; i < 256; i += blockDim.x) room[i] *= 2;
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out + 256 * blockIdx.x, room,
                           1024);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    }
}
template <class T> __global__ void reduce(const T *in, T *out)
{
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    T v = cg::reduce(warp, in[blockIdx.x * blockDim.x + threadIdx.x], cg::plus<T>());
    if (warp.thread_rank() == 0) atomicAdd(out, v);
    T m = cg::reduce(cg::labeled_partition(warp, int(threadIdx.x % 3)), in[threadIdx.x],
                     cg::greater<T>());
    if (threadIdx.x < 3 && blockIdx.x == 0) out[1 + threadIdx.x] = m;
}
using namespace nvcuda;
extern "C" __global__ void product(const __half *a, const __half *b, float *c)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 1.0f);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
extern "C" __global__ void eight(const float *in, float *out)
{
    const int i = threadIdx.x;
    __nv_fp8_e4m3 a(in[i]); __nv_fp8_e5m2 b(in[i]);
    __nv_fp8x2_e4m3 c(make_float2(in[i], -in[i]));
    float2 d = static_cast<float2>(c);
    __nv_bfloat162 h = __floats2bfloat162_rn(in[i], in[i] * 2);
    h = __hfma2(h, h, h);
    out[4 * i] = float(a); out[4 * i + 1] = float(b); out[4 * i + 2] = d.x + d.y;
    out[4 * i + 3] = __high2float(h) - __low2float(h);
}
// Programmatic dependent launch, elect, setmaxnreg's neighbours, clocks.
extern "C" __global__ void odd(unsigned *out)
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
    unsigned elected;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }"
                 : "=r"(elected));
    const unsigned n = __reduce_add_sync(0xffffffff, elected);
    const unsigned m = __match_any_sync(0xffffffff, threadIdx.x / 4);
    const long long t = clock64();
    out[threadIdx.x] = n * 1000 + __popc(m) + (clock64() < t) +
                       (__activemask() != 0xffffffff) * 100000;
}
)";

int main()
{
    nvrtcProgram program;
    CHECK(nvrtcCreateProgram(&program, source, "p.cu", 0, nullptr, nullptr));
    CHECK(nvrtcAddNameExpression(program, "reduce<float>"));
    CHECK(nvrtcAddNameExpression(program, "reduce<int>"));
    const char *options[] = {"--gpu-architecture=compute_90", "-std=c++20", "-default-device",
                             "-I" TOOLKIT "/include", "-I" TOOLKIT "/include/cccl"};
    size_t bytes;
    if (nvrtcCompileProgram(program, 5, options)) {
        CHECK(nvrtcGetProgramLogSize(program, &bytes));
        std::string log(bytes, 0);
        CHECK(nvrtcGetProgramLog(program, log.data()));
        fprintf(stderr, "%s\n", log.c_str());
        return 1;
    }
    CHECK(nvrtcGetPTXSize(program, &bytes));
    std::string ptx(bytes, 0);
    CHECK(nvrtcGetPTX(program, ptx.data()));
    const char *reduce_float, *reduce_int;
    CHECK(nvrtcGetLoweredName(program, "reduce<float>", &reduce_float));
    CHECK(nvrtcGetLoweredName(program, "reduce<int>", &reduce_int));

    CUcontext context;
    CUmodule module;
    CUdeviceptr in, out;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, ptx.c_str()));
    CHECK(cuMemAllocManaged(&in, 65536, CU_MEM_ATTACH_GLOBAL));
    CHECK(cuMemAllocManaged(&out, 65536, CU_MEM_ATTACH_GLOBAL));
    auto run = [&](const char *name, unsigned grid, unsigned block, std::vector<void *> arguments) {
        CUfunction f;
        CHECK(cuModuleGetFunction(&f, module, name));
        CHECK(cuLaunchKernel(f, grid, 1, 1, block, 1, 1, 0, nullptr, arguments.data(), nullptr));
        CHECK(cuCtxSynchronize());
    };
    int *ints_in = reinterpret_cast<int *>(in), *ints = reinterpret_cast<int *>(out);
    float *floats_in = reinterpret_cast<float *>(in), *floats = reinterpret_cast<float *>(out);

    run("cluster", 1, 64, {&out});
    for (int i = 0; i < 64; i++) TRUE(ints[i] == 63 - i + 1000);

    for (int i = 0; i < 2048; i++) ints_in[i] = i;
    run("bulk", 8, 64, {&in, &out});
    for (int i = 0; i < 2048; i++) TRUE(ints[i] == 2 * i);

    memset(ints, 0, 64);
    run(reduce_int, 8, 256, {&in, &out});
    TRUE(ints[0] == 2047 * 1024 && ints[1] == 30 && ints[2] == 31 && ints[3] == 29);
    float sum = 0;
    for (int i = 0; i < 2048; i++) sum += floats_in[i] = i % 17;
    memset(ints, 0, 64);
    run(reduce_float, 8, 256, {&in, &out});
    TRUE(floats[0] == sum);

    // Halves from 1 to 2, whose products and sums are exact.
    auto half = [](int i) { return 1 + i % 5 * 0.25f; };
    for (int i = 0; i < 512; i++)
        reinterpret_cast<unsigned short *>(in)[i] = 0x3c00 + i % 5 * 0x100;
    CUdeviceptr second = in + 512;
    run("product", 1, 32, {&in, &second, &out});
    for (int r = 0; r < 16; r++)
        for (int c = 0; c < 16; c++) {
            float wanted = 1;
            for (int k = 0; k < 16; k++) wanted += half(r * 16 + k) * half(256 + c * 16 + k);
            TRUE(floats[r * 16 + c] == wanted);
        }

    for (int i = 0; i < 32; i++) floats_in[i] = i * 0.25f;
    run("eight", 1, 32, {&in, &out});
    for (int i = 0; i < 16; i++) TRUE(floats[4 * i] == floats_in[i] && floats[4 * i + 2] == 0);

    run("odd", 1, 32, {&out});
    for (int i = 0; i < 32; i++) TRUE(ints[i] == 1004);
    printf("right\n");
}
