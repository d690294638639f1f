// SPDX-License-Identifier: Apache-2.0
// What NVIDIA's driver does where its documentation promises nothing, and what rgpu counts on:
// for a machine with a GPU (doc/gpu-results.md). Prints one fact a line: NAME VALUE UNIT.
//
//   facts reserve N            N times: are the addresses of a band given to whom asks for them?
//   facts fresh                the same once, at the start of a process
//   facts memory               times of cuMemCreate and its like beside cuMemAlloc
//   facts places               where the driver puts variables, kernels and textures of one recipe
//   facts idle                 what a context holds of the GPU
//   facts hash                 how fast a kernel sums up memory in pieces of 64 KiB
//   facts attributes           every attribute of device 0
//   facts hold MIB FILE        holds as much memory, written, until FILE has gone; then checks it
//   facts again MIB FILE       the same in fixed addresses, unmapped while FILE is there
//   facts checkpoint PID...    cuCheckpoint* there and back, timed, for each PID
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include <cuda.h>
#include <unistd.h>

namespace {

constexpr uint64_t kBand = 0x580000000000, kBandBytes = uint64_t{1} << 40;

double now()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

void must(CUresult r, const char *what)
{
    if (!r) return;
    const char *name = "?";
    cuGetErrorName(r, &name);
    printf("failed %s %s\n", what, name);
    fflush(stdout);
    _exit(1);
}
#define MUST(call) must(call, #call)

void say(const char *name, double value, const char *unit)
{
    printf("%s %.6g %s\n", name, value, unit);
    fflush(stdout);
}

__device__ int first_variable, second_variable[1000];
__device__ __noinline__ int function(int x) { return x + first_variable; }
__device__ int (*volatile pointer)(int) = function;
__global__ void addresses(uint64_t *out)
{
    out[0] = uint64_t(&first_variable);
    out[1] = uint64_t(&second_variable);
    out[2] = uint64_t(pointer);
    out[3] = uint64_t(malloc(64));
    int local = int(out[0]);
    out[4] = uint64_t(&local);
}

__global__ void spin(long long nanoseconds)
{
    long long begin, at;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(at));
    while (at - begin < nanoseconds);
}

// A value for each piece of 64 KiB, by one block of threads.
__global__ void sum_up(const uint4 *memory, uint64_t *sums)
{
    const uint4 *piece = memory + uint64_t(blockIdx.x) * 4096;
    uint64_t sum = 1469598103934665603u + threadIdx.x;
    for (int i = threadIdx.x; i < 4096; i += blockDim.x) {
        uint4 w = piece[i];
        sum = (sum ^ (w.x | uint64_t(w.y) << 32)) * 1099511628211u;
        sum = (sum ^ (w.z | uint64_t(w.w) << 32)) * 1099511628211u;
    }
    __shared__ unsigned long long all;
    if (!threadIdx.x) all = 0;
    __syncthreads();
    atomicAdd(&all, sum);
    __syncthreads();
    if (!threadIdx.x) sums[blockIdx.x] = all;
}

__global__ void fill(uint64_t *memory, uint64_t n, uint64_t key)
{
    for (uint64_t i = blockIdx.x * uint64_t(blockDim.x) + threadIdx.x; i < n;
         i += uint64_t(gridDim.x) * blockDim.x)
        memory[i] = i * 2654435761u + key;
}

__global__ void differ(const uint64_t *memory, uint64_t n, uint64_t key, unsigned long long *count)
{
    for (uint64_t i = blockIdx.x * uint64_t(blockDim.x) + threadIdx.x; i < n;
         i += uint64_t(gridDim.x) * blockDim.x)
        if (memory[i] != i * 2654435761u + key) atomicAdd(count, 1);
}

CUcontext context;

void start()
{
    CUdevice device;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
}

CUmemAllocationProp pinned()
{
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return prop;
}

CUmemAccessDesc both_ways()
{
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return access;
}

// --- reserve, fresh

bool reserve_band(uint64_t k)
{
    CUdeviceptr at = 0;
    const CUdeviceptr wanted = kBand + k * kBandBytes;
    if (CUresult r = cuMemAddressReserve(&at, kBandBytes, 2 << 20, wanted, 0))
        return must(r, "cuMemAddressReserve"), false;
    const bool there = at == wanted;
    MUST(cuMemAddressFree(at, kBandBytes));
    return there;
}

void reserve(int times)
{
    start();
    int there = 0;
    const double begin = now();
    for (int i = 0; i < times; i++) there += reserve_band(i % 16);
    say("reserve.given", there, ("of " + std::to_string(times)).c_str());
    say("reserve.time", (now() - begin) / times * 1e6, "us");
}

void fresh()
{
    start();
    int there = 0;
    for (int k = 0; k < 16; k++) there += reserve_band(k);
    say("fresh.given", there, "of 16");
}

// --- memory

constexpr const char *kSteps[] = {"create", "map", "access", "unmap", "release", "alloc", "free"};
constexpr int kStepCount = 7;

// The time of each step, in seconds: whole pages at `base`, and another piece of memory.
void take_steps(CUdeviceptr base, uint64_t pages, uint64_t bytes, double (&t)[kStepCount])
{
    CUmemAllocationProp prop = pinned();
    CUmemAccessDesc access = both_ways();
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p;
    double at[kStepCount + 1] = {now()};
    MUST(cuMemCreate(&handle, pages, &prop, 0));
    at[1] = now();
    MUST(cuMemMap(base, pages, 0, handle, 0));
    at[2] = now();
    MUST(cuMemSetAccess(base, pages, &access, 1));
    at[3] = now();
    MUST(cuMemUnmap(base, pages));
    at[4] = now();
    MUST(cuMemRelease(handle));
    at[5] = now();
    MUST(cuMemAlloc(&p, bytes));
    at[6] = now();
    MUST(cuMemFree(p));
    at[7] = now();
    for (int k = 0; k < kStepCount; k++) t[k] = at[k + 1] - at[k];
}

void memory()
{
    start();
    size_t granularity = 0;
    CUmemAllocationProp prop = pinned();
    MUST(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    say("memory.granularity", double(granularity), "bytes");
    CUdeviceptr base;
    MUST(cuMemAddressReserve(&base, kBandBytes, 2 << 20, kBand, 0));
    for (uint64_t bytes :
         {uint64_t{4} << 10, uint64_t{2} << 20, uint64_t{64} << 20, uint64_t{1} << 30}) {
        double all[kStepCount] = {}, one[kStepCount];
        constexpr int kTimes = 50;
        for (int i = -2; i < kTimes; i++) {
            take_steps(base, (bytes + granularity - 1) / granularity * granularity, bytes, one);
            for (int k = 0; i >= 0 && k < kStepCount; k++) all[k] += one[k];
        }
        for (int k = 0; k < kStepCount; k++)
            say(("memory." + std::to_string(bytes >> 10) + "KiB." + kSteps[k]).c_str(),
                all[k] / kTimes * 1e6, "us");
    }
    MUST(cuMemAddressFree(base, kBandBytes));
}

// Pages of 2 MiB, side by side: access for all of them in one call.
void pages()
{
    start();
    CUmemAllocationProp prop = pinned();
    CUmemAccessDesc access = both_ways();
    CUdeviceptr base;
    MUST(cuMemAddressReserve(&base, kBandBytes, 2 << 20, kBand, 0));
    constexpr int kPages = 512;
    std::vector<CUmemGenericAllocationHandle> handles(kPages);
    double begin = now();
    for (int i = 0; i < kPages; i++) MUST(cuMemCreate(&handles[i], 2 << 20, &prop, 0));
    say("memory.pages.create", (now() - begin) / kPages * 1e6, "us a page");
    begin = now();
    for (int i = 0; i < kPages; i++)
        MUST(cuMemMap(base + i * (uint64_t{2} << 20), 2 << 20, 0, handles[i], 0));
    say("memory.pages.map", (now() - begin) / kPages * 1e6, "us a page");
    begin = now();
    MUST(cuMemSetAccess(base, kPages * (uint64_t{2} << 20), &access, 1));
    say("memory.pages.access", (now() - begin) / kPages * 1e6, "us a page, in one call");
    begin = now();
    MUST(cuMemUnmap(base, kPages * (uint64_t{2} << 20)));
    say("memory.pages.unmap", (now() - begin) / kPages * 1e6, "us a page, in one call");
    for (auto handle : handles) MUST(cuMemRelease(handle));
    MUST(cuMemAddressFree(base, kBandBytes));
}

// Which calls wait for a kernel that has nothing to do with the memory?
void beside_kernel()
{
    start();
    CUdeviceptr base;
    CUstream stream;
    MUST(cuMemAddressReserve(&base, kBandBytes, 2 << 20, kBand, 0));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    spin<<<1, 1, 0, stream>>>(1);
    MUST(cuCtxSynchronize());
    spin<<<1, 1, 0, stream>>>(300000000);
    double t[kStepCount];
    take_steps(base, 2 << 20, 64 << 20, t);
    const double begin = now();
    MUST(cuCtxSynchronize());
    say("memory.beside_kernel.kernel_left", (now() - begin) * 1e6, "us");
    for (int k = 0; k < kStepCount; k++)
        say(("memory.beside_kernel." + std::string(kSteps[k])).c_str(), t[k] * 1e6, "us");
    MUST(cuMemAddressFree(base, kBandBytes));
}

// --- places

void places()
{
    start();
    CUdeviceptr base, out;
    MUST(cuMemAddressReserve(&base, kBandBytes, 2 << 20, kBand, 0));
    MUST(cuMemAlloc(&out, 64));
    printf("places.first_allocation %#llx address\n", out);
    addresses<<<1, 1>>>(reinterpret_cast<uint64_t *>(out));
    uint64_t found[5];
    MUST(cuMemcpyDtoH(found, out, sizeof found));
    const char *names[] = {"variable", "array", "function", "heap", "local"};
    for (int i = 0; i < 5; i++)
        printf("places.%s %#llx address\n", names[i], static_cast<unsigned long long>(found[i]));
    for (int i = 0; i < 3; i++) {
        CUarray array;
        CUDA_ARRAY_DESCRIPTOR form = {64, 64, CU_AD_FORMAT_FLOAT, 1};
        MUST(cuArrayCreate(&array, &form));
        CUDA_RESOURCE_DESC resource = {};
        resource.resType = CU_RESOURCE_TYPE_ARRAY;
        resource.res.array.hArray = array;
        CUDA_TEXTURE_DESC texture = {};
        CUtexObject object = 0;
        MUST(cuTexObjectCreate(&object, &resource, &texture, nullptr));
        printf("places.texture%d %#llx number\n", i, object);
    }
    CUdeviceptr pool = 0;
    CUstream stream;
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuMemAllocAsync(&pool, 1 << 20, stream));
    printf("places.pool %#llx address\n", pool);
}

// --- idle

void idle()
{
    size_t free[5], total;
    start();
    MUST(cuMemGetInfo(&free[0], &total));
    CUdeviceptr p;
    MUST(cuMemAlloc(&p, uint64_t{10} << 30));
    MUST(cuMemGetInfo(&free[1], &total));
    MUST(cuMemFree(p));
    MUST(cuMemGetInfo(&free[2], &total));
    say("idle.total", total / 1048576.0, "MiB");
    say("idle.context", (total - free[0]) / 1048576.0, "MiB not free with one context");
    say("idle.kept", (double(free[0]) - double(free[2])) / 1048576.0,
        "MiB kept after 10 GiB were freed");
}

// --- hash

void hash()
{
    start();
    const uint64_t bytes = uint64_t{4} << 30;
    CUdeviceptr p, sums;
    MUST(cuMemAlloc(&p, bytes));
    MUST(cuMemAlloc(&sums, bytes / 65536 * 8));
    MUST(cuMemsetD32(p, 7, bytes / 4));
    for (int threads : {128, 256, 512, 1024}) {
        sum_up<<<bytes / 65536, threads>>>(reinterpret_cast<uint4 *>(p),
                                           reinterpret_cast<uint64_t *>(sums));
        MUST(cuCtxSynchronize());
        const double begin = now();
        for (int i = 0; i < 10; i++)
            sum_up<<<bytes / 65536, threads>>>(reinterpret_cast<uint4 *>(p),
                                               reinterpret_cast<uint64_t *>(sums));
        MUST(cuCtxSynchronize());
        say(("hash." + std::to_string(threads)).c_str(), 10 * bytes / (now() - begin) / 1e9,
            "GB/s");
    }
    void *host;
    MUST(cuMemAllocHost(&host, uint64_t{1} << 30));
    for (int way = 0; way < 2; way++) {
        const double begin = now();
        for (int i = 0; i < 4; i++)
            if (way)
                MUST(cuMemcpyHtoD(p, host, uint64_t{1} << 30));
            else
                MUST(cuMemcpyDtoH(host, p, uint64_t{1} << 30));
        say(way ? "pcie.to_device" : "pcie.to_host", 4.0 * (1 << 30) / (now() - begin) / 1e9,
            "GB/s, pinned");
    }
}

// --- attributes

void attributes()
{
    start();
    CUdevice device;
    char name[100];
    MUST(cuCtxGetDevice(&device));
    MUST(cuDeviceGetName(name, sizeof name, device));
    printf("attributes.name %s\n", name);
    for (int i = 1; i < CU_DEVICE_ATTRIBUTE_MAX; i++) {
        int value;
        if (!cuDeviceGetAttribute(&value, CUdevice_attribute(i), device))
            printf("attributes.%d %d\n", i, value);
    }
    for (int i = 0; i < CU_LIMIT_MAX; i++) {
        size_t value;
        if (!cuCtxGetLimit(&value, CUlimit(i))) printf("limits.%d %zu\n", i, value);
    }
    CUdevResource resource;
    if (!cuDeviceGetDevResource(device, &resource, CU_DEV_RESOURCE_TYPE_SM))
        printf("resource.sm %u\n", resource.sm.smCount);
}

// --- hold, again, checkpoint

uint64_t wrong(CUdeviceptr p, uint64_t bytes, uint64_t key)
{
    CUdeviceptr count;
    unsigned long long value = 0;
    MUST(cuMemAlloc(&count, 8));
    MUST(cuMemsetD8(count, 0, 8));
    differ<<<1024, 256>>>(reinterpret_cast<uint64_t *>(p), bytes / 8, key,
                          reinterpret_cast<unsigned long long *>(count));
    MUST(cuMemcpyDtoH(&value, count, 8));
    MUST(cuMemFree(count));
    return value;
}

void wait_for(const char *file)
{
    fclose(fopen(file, "w"));
    while (!access(file, F_OK)) usleep(1000);
}

void hold(uint64_t mib, const char *file)
{
    start();
    CUdeviceptr p = 0;
    const uint64_t bytes = mib << 20;
    if (bytes) {
        MUST(cuMemAlloc(&p, bytes));
        fill<<<1024, 256>>>(reinterpret_cast<uint64_t *>(p), bytes / 8, 5);
    }
    MUST(cuCtxSynchronize());
    wait_for(file);
    if (bytes) say("hold.wrong", double(wrong(p, bytes, 5)), "words");
    say("hold.done", double(mib), "MiB");
}

void again(uint64_t mib, const char *file)
{
    start();
    CUdeviceptr base;
    CUmemAllocationProp prop = pinned();
    CUmemAccessDesc access = both_ways();
    CUmemGenericAllocationHandle handle;
    const uint64_t bytes = mib << 20;
    MUST(cuMemAddressReserve(&base, kBandBytes, 2 << 20, kBand, 0));
    say("again.given", base == kBand, "of 1");
    MUST(cuMemCreate(&handle, bytes, &prop, 0));
    MUST(cuMemMap(base, bytes, 0, handle, 0));
    MUST(cuMemSetAccess(base, bytes, &access, 1));
    fill<<<1024, 256>>>(reinterpret_cast<uint64_t *>(base), bytes / 8, 6);
    void *host;
    MUST(cuMemAllocHost(&host, bytes));
    double begin = now();
    MUST(cuMemcpyDtoH(host, base, bytes));
    say("again.out", bytes / (now() - begin) / 1e9, "GB/s");
    MUST(cuMemUnmap(base, bytes));
    MUST(cuMemRelease(handle));
    wait_for(file);
    begin = now();
    MUST(cuMemCreate(&handle, bytes, &prop, 0));
    MUST(cuMemMap(base, bytes, 0, handle, 0));
    MUST(cuMemSetAccess(base, bytes, &access, 1));
    say("again.mapped", (now() - begin) * 1e6, "us");
    MUST(cuMemcpyHtoD(base, host, bytes));
    say("again.back", (now() - begin) * 1e3, "ms with the copy");
    say("again.wrong", double(wrong(base, bytes, 6)), "words");
}

void checkpoint(int pid)
{
    const char *steps[] = {"lock", "checkpoint", "restore", "unlock"};
    CUcheckpointLockArgs lock = {};
    lock.timeoutMs = 20000;
    for (int i = 0; i < 4; i++) {
        const double begin = now();
        const CUresult r = i == 0   ? cuCheckpointProcessLock(pid, &lock)
                           : i == 1 ? cuCheckpointProcessCheckpoint(pid, nullptr)
                           : i == 2 ? cuCheckpointProcessRestore(pid, nullptr)
                                    : cuCheckpointProcessUnlock(pid, nullptr);
        const double took = now() - begin;
        CUprocessState state = CUprocessState(-1);
        cuCheckpointProcessGetState(pid, &state);
        const char *name = "?";
        cuGetErrorName(r, &name);
        printf("checkpoint.%s %.3f ms %s, then state %d\n", steps[i], took * 1e3, name, int(state));
        fflush(stdout);
        if (i == 1) {
            // What is left of it on the GPU, by nvidia-smi.
            fflush(stdout);
            if (system("nvidia-smi --query-gpu=memory.used --format=csv,noheader | sed "
                       "'s/^/checkpoint.gpu_holds /'") == -1)
                return;
        }
        if (r && i == 0) return;
        if (r && i == 1) i = 2;  // unlock it again
    }
}

}  // namespace

int main(int argc, char **argv)
{
    const std::string what = argc > 1 ? argv[1] : "";
    if (what == "reserve" && argc == 3)
        reserve(atoi(argv[2]));
    else if (what == "fresh")
        fresh();
    else if (what == "memory")
        memory(), pages(), beside_kernel();
    else if (what == "places")
        places();
    else if (what == "idle")
        idle();
    else if (what == "hash")
        hash();
    else if (what == "attributes")
        attributes();
    else if (what == "hold" && argc == 4)
        hold(strtoull(argv[2], nullptr, 10), argv[3]);
    else if (what == "again" && argc == 4)
        again(strtoull(argv[2], nullptr, 10), argv[3]);
    else if (what == "checkpoint" && argc >= 3) {
        MUST(cuInit(0));
        for (int i = 2; i < argc; i++) checkpoint(atoi(argv[i]));
    } else
        return fprintf(stderr, "usage: see the head of facts.cu\n"), 2;
    return 0;
}
