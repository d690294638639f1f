// SPDX-License-Identifier: Apache-2.0
// Small answers that programs look at: arrays of no room, pointer attributes, what is no image,
// clusters where the device has none, and the linker's words.
#include "check.h"

#include <unistd.h>

static const char kPtx[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
                           ".visible .entry nothing()\n{\n  ret;\n}\n";

__global__ void nothing() {}

static void arrays_of_no_room()
{
    CUgraph g;
    CUgraphNode a, b, nodes[2];
    const CUgraphNode untouched = reinterpret_cast<CUgraphNode>(7);
    DRIVER(cuGraphCreate(&g, 0));
    DRIVER(cuGraphAddEmptyNode(&a, g, nullptr, 0));
    DRIVER(cuGraphAddEmptyNode(&b, g, &a, 1));
    size_t n = 0;
    const auto no_room = [&](CUresult got) {
        TRUE(got == CUDA_ERROR_INVALID_VALUE && n == 0 && nodes[0] == untouched);
    };
    nodes[0] = nodes[1] = untouched;
    no_room(cuGraphGetNodes(g, nodes, &n));
    no_room(cuGraphGetRootNodes(g, nodes, &n));
    no_room(cuGraphGetEdges(g, nodes, nodes + 1, nullptr, &n));
    no_room(cuGraphNodeGetDependencies(b, nodes, nullptr, &n));
    no_room(cuGraphNodeGetDependentNodes(a, nodes, nullptr, &n));
    DRIVER(cuGraphGetNodes(g, nullptr, &n));
    TRUE(n == 2);
    DRIVER(cuGraphGetNodes(g, nodes, &n));
    TRUE(n == 2 && nodes[0] == a && nodes[1] == b);
    DRIVER(cuGraphDestroy(g));
}

static void pointers()
{
    void *p, *host;
    CHECK(cudaMalloc(&p, 100));
    CHECK(cudaMallocHost(&host, 100));
    for (void *each : {p, host}) {
        const auto address = reinterpret_cast<CUdeviceptr>(each);
        unsigned value = 7, on = 1;
        DRIVER(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
        TRUE(value == 0);
        DRIVER(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
        DRIVER(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address + 50));
        TRUE(value == 1);
        on = 0;
        DRIVER(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
        DRIVER(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
        TRUE(value == 0);
        const auto unknown = static_cast<CUpointer_attribute>(99);
        void *to = &value;
        CUpointer_attribute which = unknown;
        DRIVER_FAILS(cuPointerGetAttribute(&value, unknown, address), CUDA_ERROR_INVALID_VALUE);
        DRIVER_FAILS(cuPointerGetAttributes(1, &which, &to, address), CUDA_ERROR_INVALID_VALUE);
        DRIVER_FAILS(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_MAPPED, address),
                     CUDA_ERROR_INVALID_VALUE);
        size_t size = 0;
        DRIVER(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, address));
        TRUE(size >= 100);
    }
    CHECK(cudaFree(p));
    CHECK(cudaFreeHost(host));
}

static void images()
{
    char path[] = "/tmp/rgpu-image-XXXXXX";
    TRUE(close(mkstemp(path)) == 0);
    CUlinkState link;
    DRIVER(cuLinkCreate(0, nullptr, nullptr, &link));
    for (CUjitInputType type : {CU_JIT_INPUT_PTX, CU_JIT_INPUT_FATBINARY, CU_JIT_INPUT_OBJECT})
        DRIVER_FAILS(cuLinkAddFile(link, type, path, 0, nullptr, nullptr),
                     CUDA_ERROR_INVALID_IMAGE);
    DRIVER_FAILS(cuLinkAddFile(link, CU_JIT_INPUT_PTX, "/nowhere", 0, nullptr, nullptr),
                 CUDA_ERROR_FILE_NOT_FOUND);
    DRIVER(cuLinkDestroy(link));
    unlink(path);
}

static void clusters()
{
    int can = 1;
    DRIVER(cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0));
    cudaLaunchConfig_t c{};
    c.gridDim = dim3(4);
    c.blockDim = dim3(32);
    cudaLaunchAttribute a{};
    a.id = cudaLaunchAttributeClusterDimension;
    a.val.clusterDim = {2, 1, 1};
    c.attrs = &a;
    c.numAttrs = 1;
    // A device that has them may still not take a kernel that was compiled for one without.
    const cudaError_t larger = cudaLaunchKernelEx(&c, nothing);
    TRUE(can || larger == cudaErrorNotSupported);
    TRUE(cudaGetLastError() == larger);
    CHECK(cudaDeviceSynchronize());
    a.val.clusterDim = {1, 1, 1};
    CHECK(cudaLaunchKernelEx(&c, nothing));
    CHECK(cudaDeviceSynchronize());
}

static void words()
{
    char info[1000] = "", errors[1000] = "";
    CUjit_option names[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    const auto values = [&](void **to) {
        to[0] = info;
        to[1] = reinterpret_cast<void *>(sizeof info);
        to[2] = errors;
        to[3] = reinterpret_cast<void *>(sizeof errors);
    };
    void *given[4];
    values(given);
    CUmodule module;
    DRIVER(cuModuleLoadDataEx(&module, kPtx, 4, names, given));
    // A driver need not say anything of what is right.
    TRUE(!errors[0] && (info[0] || !on_softgpu()));
    EXPECT(reinterpret_cast<size_t>(given[1]) >= strlen(info), "%p", given[1]);
    DRIVER(cuModuleUnload(module));
    info[0] = 0;
    values(given);
    DRIVER_FAILS(cuModuleLoadDataEx(&module, ".version 7.0\nnonsense", 4, names, given),
                 CUDA_ERROR_INVALID_PTX);
    TRUE(errors[0]);

    info[0] = 0;
    values(given);
    CUlinkState link;
    void *image;
    size_t bytes;
    DRIVER(cuLinkCreate(4, names, given, &link));
    DRIVER(cuLinkAddData(link, CU_JIT_INPUT_PTX, const_cast<char *>(kPtx), sizeof kPtx, "nothing",
                         0, nullptr, nullptr));
    DRIVER(cuLinkComplete(link, &image, &bytes));
    TRUE(info[0] || !on_softgpu());
    DRIVER(cuLinkDestroy(link));
}

int main()
{
    CHECK(cudaFree(nullptr));
    arrays_of_no_room();
    pointers();
    images();
    clusters();
    words();
    return right();
}
