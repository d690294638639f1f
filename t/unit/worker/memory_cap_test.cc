// SPDX-License-Identifier: Apache-2.0
// The cap on memory in front of the software GPU's driver, whose own count is what it is compared
// with.
#include "worker/limits/memory_cap.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <random>

using namespace rgpu;
using namespace rgpu::worker;

static constexpr uint64_t kMiB = 1 << 20, kCap = 64 * kMiB, kDevice = 256 * kMiB;

struct Host {
    std::string path = "/tmp/rgpu-cap.XXXXXX";

    Host()
    {
        cr_assert(mkdtemp(path.data()));
        setenv("RGPU_SOFTGPU_HOST", (path + "/host").c_str(), 1);
        setenv("RGPU_SOFTGPU_CACHE", (path + "/cache").c_str(), 1);
        setenv("RGPU_SOFTGPU_DEVICES", "2", 1);
        setenv("RGPU_SOFTGPU_MEMORY", std::to_string(kDevice).c_str(), 1);
        unsetenv("CUDA_VISIBLE_DEVICES");
        int account = open((path + "/account").c_str(), O_RDWR | O_CREAT, 0600);
        cr_assert_eq(ftruncate(account, static_cast<off_t>(MemoryAccount::file_bytes(4, 2))), 0);
        close(account);
    }
    ~Host() { std::filesystem::remove_all(path); }

    static std::string driver_path()
    {
        const char *build = getenv("RGPU_BUILD");
        return std::string(build ? build : "build") + "/lib/softgpu/libcuda.so.1";
    }

    // A worker of the lease: this process. What went wrong, or nothing: a forked process must not
    // use Criterion.
    std::string start_or_error()
    {
        auto opened = Driver::open(driver_path());
        if (!opened) return opened.error().text;
        raw = *opened;
        int account = open((path + "/account").c_str(), O_RDWR);
        serverd::WorkerStart start;
        start.memory = {kCap, kDevice};
        if (auto enforced = enforce_memory_cap(*opened, account, start); !enforced)
            return enforced.error().text;
        set_driver(*opened);
        CUcontext context = nullptr;
        if (DRIVER(cuDevicePrimaryCtxRetain)(&context, 0) || DRIVER(cuCtxSetCurrent)(context))
            return "no context";
        return "";
    }
    void start()
    {
        std::string wrong = start_or_error();
        cr_assert(wrong.empty(), "%s", wrong.c_str());
    }

    uint64_t free()
    {
        size_t free = 0, total = 0;
        cr_assert_eq(DRIVER(cuMemGetInfo_v2)(&free, &total), CUDA_SUCCESS);
        cr_assert_eq(total, kCap);
        return free;
    }
    // What the device itself says that is in use.
    uint64_t in_use()
    {
        size_t free = 0, total = 0;
        cr_assert_eq(raw.call<CallId::cuMemGetInfo_v2>()(&free, &total), CUDA_SUCCESS);
        return total - free;
    }

    Driver raw;
};

// No softgpu in the sanitizers' build trees.
#define NEED_SOFTGPU() \
    if (!std::filesystem::exists(Host::driver_path())) \
    cr_skip_test("%s is not built", Host::driver_path().c_str())

struct Piece {
    enum Kind { linear, pitch, managed, pooled, physical, kinds } kind = linear;
    CUdeviceptr address = 0;
    CUmemGenericAllocationHandle handle = 0;
};

static CUresult make(Piece &piece, size_t bytes)
{
    size_t pitch = 0;
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    switch (piece.kind) {
    case Piece::linear: return DRIVER(cuMemAlloc_v2)(&piece.address, bytes);
    case Piece::pitch: return DRIVER(cuMemAllocPitch_v2)(&piece.address, &pitch, bytes / 16, 16, 4);
    case Piece::managed:
        return DRIVER(cuMemAllocManaged)(&piece.address, bytes, CU_MEM_ATTACH_GLOBAL);
    case Piece::pooled: return DRIVER(cuMemAllocAsync)(&piece.address, bytes, nullptr);
    default:
        return DRIVER(cuMemCreate)(&piece.handle, (bytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB),
                                   &prop, 0);
    }
}

static void end(const Piece &piece)
{
    CUresult r = piece.kind == Piece::physical ? DRIVER(cuMemRelease)(piece.handle)
                 : piece.kind == Piece::pooled ? DRIVER(cuMemFreeAsync)(piece.address, nullptr)
                                               : DRIVER(cuMemFree_v2)(piece.address);
    cr_assert_eq(r, CUDA_SUCCESS);
    if (piece.kind == Piece::pooled)
        cr_assert_eq(DRIVER(cuStreamSynchronize)(nullptr), CUDA_SUCCESS);
}

Test(memory_cap, each_kind_gets_the_cap_and_no_more)
{
    NEED_SOFTGPU();
    Host host;
    host.start();
    size_t total = 0;
    cr_assert_eq(DRIVER(cuDeviceTotalMem_v2)(&total, 0), CUDA_SUCCESS);
    cr_assert_eq(total, kCap, "the device has the cap");
    cr_assert_eq(DRIVER(cuDeviceTotalMem_v2)(&total, 1), CUDA_SUCCESS);
    cr_assert_eq(total, kDevice);
    for (int kind = 0; kind < Piece::kinds; kind++) {
        for (size_t bytes : {size_t{4096}, size_t{100'000}, size_t{1'500'000}, size_t{16} << 20}) {
            if (kind == Piece::physical && bytes < kMiB) continue;
            // Software pools tell what they gave out, not the pages that it lies in: sizes that
            // fill pages, then.
            if (kind == Piece::pooled && bytes < kMiB) bytes = bytes < 10'000 ? 4096 : kMiB;
            std::vector<Piece> pieces;
            CUresult r;
            for (;;) {
                Piece piece{static_cast<Piece::Kind>(kind)};
                if ((r = make(piece, bytes))) break;
                pieces.push_back(piece);
                cr_assert_leq(host.in_use(), kCap + 2 * kMiB, "kind %d, %zu bytes", kind, bytes);
            }
            cr_assert_eq(r, CUDA_ERROR_OUT_OF_MEMORY, "kind %d: %d", kind, r);
            uint64_t page = bytes > kMiB ? (bytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB) : bytes;
            cr_assert_geq(host.in_use() + page + 2 * kMiB, kCap,
                          "kind %d, %zu bytes: refused at %llu", kind, bytes,
                          static_cast<unsigned long long>(host.in_use()));
            cr_assert_leq(host.free(), page + 2 * kMiB);
            for (const Piece &piece : pieces) end(piece);
            cr_assert_geq(host.free() + 2 * kMiB, kCap, "kind %d, %zu bytes: all is given back",
                          kind, bytes);
            cr_assert_leq(host.in_use(), 2 * kMiB);
        }
    }
}

Test(memory_cap, whatever_is_taken_and_given_the_count_is_the_devices)
{
    NEED_SOFTGPU();
    Host host;
    host.start();
    std::mt19937 random(7);
    std::vector<Piece> pieces;
    for (int i = 0; i < 3000; i++) {
        if (!pieces.empty() && random() % 5 < 2) {
            size_t at = random() % pieces.size();
            end(pieces[at]);
            pieces.erase(pieces.begin() + static_cast<long>(at));
        } else {
            Piece piece{static_cast<Piece::Kind>(random() % Piece::kinds)};
            size_t bytes = random() % 2 && piece.kind != Piece::pooled
                               ? random() % 60'000 + 512
                               : random() % (6 * kMiB) + kMiB + 1;
            CUresult r = make(piece, bytes);
            cr_assert(r == CUDA_SUCCESS || r == CUDA_ERROR_OUT_OF_MEMORY, "%d", r);
            if (r == CUDA_SUCCESS) pieces.push_back(piece);
        }
        int64_t counted = static_cast<int64_t>(kCap - host.free()),
                real = static_cast<int64_t>(host.in_use());
        cr_assert_leq(std::abs(counted - real), 2 * static_cast<int64_t>(kMiB),
                      "step %d: counted %lld, in use %lld", i, static_cast<long long>(counted),
                      static_cast<long long>(real));
    }
}

Test(memory_cap, physical_memory_lives_as_long_as_a_handle_or_a_mapping)
{
    NEED_SOFTGPU();
    Host host;
    host.start();
    Piece piece{Piece::physical};
    cr_assert_eq(make(piece, 8 * kMiB), CUDA_SUCCESS);
    CUdeviceptr address = 0;
    cr_assert_eq(DRIVER(cuMemAddressReserve)(&address, 8 * kMiB, 0, 0, 0), CUDA_SUCCESS);
    cr_assert_eq(DRIVER(cuMemMap)(address, 8 * kMiB, 0, piece.handle, 0), CUDA_SUCCESS);
    cr_assert_eq(DRIVER(cuMemRelease)(piece.handle), CUDA_SUCCESS);
    cr_assert_eq(host.free(), kCap - 8 * kMiB);
    cr_assert_eq(DRIVER(cuMemUnmap)(address, 8 * kMiB), CUDA_SUCCESS);
    cr_assert_eq(host.free(), kCap);
}

// What another process made, and has freed meanwhile.
Test(memory_cap, imported_memory_counts_and_is_refused_past_the_cap)
{
    NEED_SOFTGPU();
    Host host;
    host.start();
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    constexpr uint64_t kBytes = 8 * kMiB;
    int fd = -1;
    CUmemGenericAllocationHandle theirs = 0, mine = 0;
    const auto create = host.raw.call<CallId::cuMemCreate>();
    const auto give = host.raw.call<CallId::cuMemExportToShareableHandle>();
    cr_assert_eq(create(&theirs, kBytes, &prop, 0), CUDA_SUCCESS);
    cr_assert_eq(give(&fd, theirs, prop.requestedHandleTypes, 0), CUDA_SUCCESS);
    cr_assert_eq(host.raw.call<CallId::cuMemRelease>()(theirs), CUDA_SUCCESS);
    const auto import = [&](uint64_t bytes) {
        memory_cap()->import_comes(bytes);
        return DRIVER(cuMemImportFromShareableHandle)(&mine, reinterpret_cast<void *>(intptr_t{fd}),
                                                      prop.requestedHandleTypes);
    };
    const uint64_t free = host.free();
    cr_assert_eq(import(kBytes), CUDA_SUCCESS);
    cr_expect_eq(host.free(), free - kBytes);
    cr_assert_eq(DRIVER(cuMemRelease)(mine), CUDA_SUCCESS);
    cr_expect_eq(host.free(), free);
    // Past the cap, and without a size.
    cr_expect_eq(import(kCap + kMiB), CUDA_ERROR_OUT_OF_MEMORY);
    cr_expect_eq(import(0), CUDA_ERROR_OUT_OF_MEMORY);
    cr_expect_eq(host.free(), free);
    close(fd);
}

Test(memory_cap, the_end_of_the_context_gives_all_back)
{
    NEED_SOFTGPU();
    Host host;
    host.start();
    for (size_t bytes : {size_t{100}, size_t{3} << 20, size_t{9} << 20}) {
        Piece piece;
        cr_assert_eq(make(piece, bytes), CUDA_SUCCESS);
    }
    cr_assert_lt(host.free(), kCap - 12 * kMiB);
    cr_assert_eq(DRIVER(cuDevicePrimaryCtxReset_v2)(0), CUDA_SUCCESS);
    CUcontext context = nullptr;
    cr_assert_eq(DRIVER(cuDevicePrimaryCtxRetain)(&context, 0), CUDA_SUCCESS);
    cr_assert_eq(DRIVER(cuCtxSetCurrent)(context), CUDA_SUCCESS);
    cr_assert_eq(host.free(), kCap);
}

Test(memory_cap, workers_of_a_lease_share_it_and_the_dead_hold_nothing)
{
    NEED_SOFTGPU();
    Host host;
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    pid_t other = fork();
    if (other == 0) {
        Piece piece;
        char result = host.start_or_error().empty() && !make(piece, 40 * kMiB) ? 'y' : 'n';
        (void)!write(ends[1], &result, 1);
        for (;;) pause();
    }
    char result = 0;
    cr_assert_eq(read(ends[0], &result, 1), 1);
    cr_assert_eq(result, 'y');
    host.start();
    cr_assert_eq(host.free(), kCap - 40 * kMiB);
    Piece piece;
    cr_assert_eq(make(piece, 26 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
    cr_assert_eq(make(piece, 24 * kMiB), CUDA_SUCCESS);
    cr_assert_eq(host.free(), 0u);
    kill(other, SIGKILL);
    waitpid(other, nullptr, 0);
    cr_assert_eq(host.free(), 40 * kMiB);
}

// --- graphs

static CUDA_MEM_ALLOC_NODE_PARAMS allocation(size_t bytes)
{
    CUDA_MEM_ALLOC_NODE_PARAMS p{};
    p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    p.bytesize = bytes;
    return p;
}

// Nodes of so many bytes until there are no more; what was refused last.
static CUresult add_nodes(CUgraph graph, size_t bytes, int most = 1000)
{
    CUresult r = CUDA_SUCCESS;
    for (int i = 0; !r && i < most; i++) {
        CUgraphNode node = nullptr;
        auto p = allocation(bytes);
        r = DRIVER(cuGraphAddMemAllocNode)(&node, graph, nullptr, 0, &p);
    }
    return r;
}

Test(memory_cap, nodes_of_graphs_get_the_cap_and_no_more)
{
    NEED_SOFTGPU();
    Host host;
    host.start();
    for (size_t bytes : {size_t{1}, size_t{100'000}, size_t{16} << 20}) {
        CUgraph graph = nullptr;
        cr_assert_eq(DRIVER(cuGraphCreate)(&graph, 0), CUDA_SUCCESS);
        CUresult r = add_nodes(graph, bytes);
        cr_assert(r == CUDA_ERROR_OUT_OF_MEMORY || bytes == 1, "%zu bytes: %d", bytes, r);
        cr_assert_leq(host.in_use(), kCap, "%zu bytes", bytes);
        cr_assert_eq(DRIVER(cuGraphDestroy)(graph), CUDA_SUCCESS);
        cr_assert_geq(host.free() + 2 * kMiB, kCap, "%zu bytes: all is given back", bytes);
    }
}

Test(memory_cap, captured_allocations_count)
{
    NEED_SOFTGPU();
    Host host;
    host.start();
    CUstream stream = nullptr;
    CUgraph graph = nullptr;
    cr_assert_eq(DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    cr_assert_eq(DRIVER(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
                 CUDA_SUCCESS);
    CUresult r = CUDA_SUCCESS;
    for (int i = 0; !r; i++) {
        CUdeviceptr p = 0;
        // The symbol that uses the thread's default stream is no way round either.
        auto allocate = i % 2 ? DRIVER(cuMemAllocAsync) : DRIVER(cuMemAllocAsync_ptsz);
        r = allocate(&p, 8 * kMiB, stream);
        cr_assert_lt(i, 9);
    }
    cr_assert_eq(r, CUDA_ERROR_OUT_OF_MEMORY);
    cr_assert_leq(host.in_use(), kCap);
    cr_assert_eq(DRIVER(cuStreamEndCapture)(stream, &graph), CUDA_SUCCESS);
    Piece piece;
    cr_assert_eq(make(piece, 4 * kMiB), CUDA_ERROR_OUT_OF_MEMORY, "nothing is left for others");
    cr_assert_eq(DRIVER(cuGraphDestroy)(graph), CUDA_SUCCESS);
    cr_assert_eq(make(piece, 4 * kMiB), CUDA_SUCCESS);
}

// As NVIDIA's driver does it: nodes take nothing, launches do.
Test(memory_cap, executable_graphs_count_where_nodes_do_not)
{
    NEED_SOFTGPU();
    Host host;
    host.start();
    memory_cap()->graphs.launches_take_memory();
    CUgraph small = nullptr, large = nullptr, parent = nullptr;
    CUgraphNode node = nullptr;
    for (CUgraph *g : {&small, &large, &parent})
        cr_assert_eq(DRIVER(cuGraphCreate)(g, 0), CUDA_SUCCESS);
    cr_assert_eq(add_nodes(small, 10 * kMiB, 2), CUDA_SUCCESS);
    cr_assert_eq(add_nodes(large, 10 * kMiB, 7), CUDA_SUCCESS);
    cr_assert_eq(add_nodes(large, kCap + 1, 1), CUDA_ERROR_OUT_OF_MEMORY,
                 "more than there ever is");
    CUgraphExec execs[3] = {}, refused = nullptr;
    cr_assert_eq(DRIVER(cuGraphInstantiateWithFlags)(&refused, large, 0), CUDA_ERROR_OUT_OF_MEMORY);
    if (!DRIVER(cuGraphAddChildGraphNode)(&node, parent, nullptr, 0, large))
        cr_assert_eq(DRIVER(cuGraphInstantiateWithFlags)(&refused, parent, 0),
                     CUDA_ERROR_OUT_OF_MEMORY, "in a graph within");
    cr_assert_eq(DRIVER(cuGraphDestroy)(parent), CUDA_SUCCESS);
    cr_assert_eq(DRIVER(cuGraphDestroy)(large), CUDA_SUCCESS);
    auto &counted = memory_cap()->graphs;
    cr_assert_eq(DRIVER(cuGraphInstantiateWithFlags)(&execs[0], small, 0), CUDA_SUCCESS);
    cr_assert_eq(counted.live(0), 20 * kMiB);
    CUDA_GRAPH_INSTANTIATE_PARAMS params{};
    CUresult r = DRIVER(cuGraphInstantiateWithParams)(&execs[1], small, &params);
    cr_assert(r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_SUPPORTED, "%d", r);
    const uint64_t two = r ? 20 * kMiB : 40 * kMiB;
    cr_assert_eq(counted.live(0), two);
    cr_assert_geq(counted.counted(0), two);
    for (CUgraphExec exec : execs)
        if (exec) cr_assert_eq(DRIVER(cuGraphExecDestroy)(exec), CUDA_SUCCESS);
    cr_assert_eq(counted.live(0), 0u);
    cr_assert_eq(DRIVER(cuGraphDestroy)(small), CUDA_SUCCESS);
    cr_assert_geq(host.free() + 2 * kMiB, kCap);
}

// --- sizes that no device has

Test(memory_cap, sizes_that_overflow_are_refused_and_count_nothing)
{
    NEED_SOFTGPU();
    Host host;
    host.start();
    const uint64_t before = host.free();
    for (size_t bytes : {SIZE_MAX, SIZE_MAX - 511, SIZE_MAX / 2, size_t{1} << 63, kCap + 1}) {
        CUdeviceptr p = 0;
        size_t pitch = 0;
        CUarray array = nullptr;
        CUmemGenericAllocationHandle handle = 0;
        CUmemAllocationProp prop{};
        prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
        CUDA_ARRAY3D_DESCRIPTOR box{bytes, bytes, bytes, CU_AD_FORMAT_FLOAT, 4, 0};
        CUgraph graph = nullptr;
        CUgraphNode node = nullptr;
        auto alloc = allocation(bytes);
        cr_assert_eq(DRIVER(cuGraphCreate)(&graph, 0), CUDA_SUCCESS);
        cr_expect_neq(DRIVER(cuMemAlloc_v2)(&p, bytes), CUDA_SUCCESS, "%zu", bytes);
        cr_expect_neq(DRIVER(cuMemAllocManaged)(&p, bytes, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS,
                      "%zu", bytes);
        cr_expect_neq(DRIVER(cuMemAllocAsync)(&p, bytes, nullptr), CUDA_SUCCESS, "%zu", bytes);
        cr_expect_neq(DRIVER(cuMemAllocPitch_v2)(&p, &pitch, bytes, bytes, 4), CUDA_SUCCESS, "%zu",
                      bytes);
        cr_expect_neq(DRIVER(cuMemCreate)(&handle, bytes, &prop, 0), CUDA_SUCCESS, "%zu", bytes);
        cr_expect_neq(DRIVER(cuArray3DCreate_v2)(&array, &box), CUDA_SUCCESS, "%zu", bytes);
        cr_expect_neq(DRIVER(cuGraphAddMemAllocNode)(&node, graph, nullptr, 0, &alloc),
                      CUDA_SUCCESS, "%zu", bytes);
        // There was some before: only what is added counts.
        cr_expect_neq(
            DRIVER(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, std::max<size_t>(bytes, 2 * kCap)),
            CUDA_SUCCESS, "%zu", bytes);
        DRIVER(cuGraphDestroy)(graph);
        cr_assert_eq(host.free(), before, "%zu bytes", bytes);
    }
}

// --- modules

Test(memory_cap, variables_of_modules_count)
{
    NEED_SOFTGPU();
    Host host;
    host.start();
    static const char kImage[] = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .global "
                                 ".align 4 .b8 bytes[20971520];\n";
    std::vector<CUmodule> modules;
    CUmodule module = nullptr;
    CUresult r;
    while (!(r = modules.size() % 2
                     ? DRIVER(cuModuleLoadData)(&module, kImage)
                     : DRIVER(cuModuleLoadDataEx)(&module, kImage, 0, nullptr, nullptr)))
        modules.push_back(module);
    cr_assert_eq(r, CUDA_ERROR_OUT_OF_MEMORY, "%d", r);
    cr_assert_eq(modules.size(), 3u);
    cr_assert_leq(host.in_use(), kCap);
    for (CUmodule m : modules) cr_assert_eq(DRIVER(cuModuleUnload)(m), CUDA_SUCCESS);
    cr_assert_eq(host.free(), kCap);
}

// --- what the lease's other workers write into its account

Test(memory_cap, nonsense_in_the_account_harms_no_more_than_the_lease)
{
    NEED_SOFTGPU();
    Host host;
    host.start();
    std::vector<uint64_t> garbage(MemoryAccount::file_bytes(4, 2) / 8, UINT64_MAX);
    int account = open((host.path + "/account").c_str(), O_RDWR);
    cr_assert_eq(pwrite(account, garbage.data(), garbage.size() * 8, 0),
                 static_cast<ssize_t>(garbage.size() * 8));
    // The slots are nobody's: what stands there is forgotten, and this worker knows itself what it
    // holds.
    Piece piece;
    cr_assert_eq(make(piece, 40 * kMiB), CUDA_SUCCESS);
    cr_assert_eq(make(piece, 40 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
    close(account);
}
