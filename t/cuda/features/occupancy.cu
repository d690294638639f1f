// SPDX-License-Identifier: Apache-2.0
// Occupancy and function attributes, and launches that ask for more than there is.
#include "check.h"

__global__ void small(int *p) { p[threadIdx.x] = 1; }
__global__ void __launch_bounds__(128) bounded(int *p) { p[threadIdx.x] = 2; }
__global__ void with_shared(int *p)
{
    extern __shared__ int room[];
    __shared__ int fixed[1000];
    room[threadIdx.x] = fixed[threadIdx.x] = threadIdx.x;
    __syncthreads();
    p[threadIdx.x] = room[threadIdx.x] + fixed[threadIdx.x];
}

// A kernel with enough registers for a limit to matter: a hundred values are loaded before the
// first is stored.
static std::string hungry()
{
    std::string loads, stores;
    for (int i = 0; i < 100; i++) {
        const std::string at = "[%p+" + std::to_string(8 * i) + "]", r = "%r" + std::to_string(i);
        loads += "ld.volatile.global.u64 " + r + ", " + at + ";\n";
        stores = "st.volatile.global.u64 " + at + ", " + r + ";\n" + stores;
    }
    return ".version 8.0\n.target sm_80\n.address_size 64\n"
           ".visible .entry hungry(.param .u64 to) {\n.reg .b64 %p, %r<100>;\n"
           "ld.param.u64 %p, [to];\n" +
           loads + stores + "ret; }\n";
}

static int registers(CUmodule m)
{
    CUfunction f;
    int n = 0;
    DRIVER(cuModuleGetFunction(&f, m, "hungry"));
    DRIVER(cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
    return n;
}

// What the program allows a kernel's registers, when it loads it and when it links it. With the
// software GPU an input's own limit comes first, and a kernel has as many as it may.
static void limits()
{
    CUmodule m;
    CUlinkState link;
    void *image;
    CUjit_option option = CU_JIT_MAX_REGISTERS;
    std::string ptx = hungry();
    const auto has = [exact = on_softgpu()](CUmodule loaded, int most) {
        return exact ? registers(loaded) == most : registers(loaded) <= most;
    };
    void *few = (void *)24, *more = (void *)40;
    DRIVER(cuModuleLoadDataEx(&m, ptx.c_str(), 1, &option, &few));
    TRUE(has(m, 24));
    DRIVER(cuModuleLoadData(&m, ptx.c_str()));
    TRUE(registers(m) > 40);
    for (void *own : {(void *)nullptr, more}) {
        DRIVER(cuLinkCreate(1, &option, &few, &link));
        DRIVER(cuLinkAddData(link, CU_JIT_INPUT_PTX, ptx.data(), ptx.size() + 1, "hungry",
                             own ? 1 : 0, &option, &own));
        DRIVER(cuLinkComplete(link, &image, nullptr));
        DRIVER(cuModuleLoadData(&m, image));
        DRIVER(cuLinkDestroy(link));
        TRUE(has(m, own ? 40 : 24));
    }
}

int main()
{
    int *p, blocks = 0, least = 0, size = 0;
    CHECK(cudaMalloc(&p, 4096));
    cudaDeviceProp d;
    CHECK(cudaGetDeviceProperties(&d, 0));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, small, 256, 0));
    TRUE(blocks >= 1 && blocks * 256 <= d.maxThreadsPerMultiProcessor);
    CHECK(cudaOccupancyMaxPotentialBlockSize(&least, &size, small, 0, 0));
    TRUE(size > 0 && size <= 1024 && least > 0);
    int half = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&half, with_shared, 32,
                                                        d.sharedMemPerBlock - 4000));
    TRUE(half >= 1 && half < 32);
    size_t room = 0;
    CHECK(cudaOccupancyAvailableDynamicSMemPerBlock(&room, with_shared, 1, 32));
    TRUE(room > 0);

    cudaFuncAttributes a;
    CHECK(cudaFuncGetAttributes(&a, bounded));
    TRUE(a.maxThreadsPerBlock == 128 && a.numRegs > 0);
    CHECK(cudaFuncGetAttributes(&a, with_shared));
    TRUE(a.sharedSizeBytes == 4000);
    bounded<<<1, 129>>>(p);
    FAILS(cudaGetLastError(), cudaErrorInvalidValue);
    small<<<1, 1025>>>(p);
    TRUE(cudaGetLastError() != cudaSuccess);
    with_shared<<<1, 32, 48 << 10>>>(p);
    FAILS(cudaGetLastError(), cudaErrorInvalidValue);
    CHECK(cudaFuncSetAttribute(with_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
    with_shared<<<1, 32, 48 << 10>>>(p);
    CHECK(cudaDeviceSynchronize());
    std::vector<int> got(32);
    CHECK(cudaMemcpy(got.data(), p, 128, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++) TRUE(got[i] == 2 * i);
    limits();
    return right();
}
