// SPDX-License-Identifier: Apache-2.0
// Memory of every size, in several threads and processes, freed in any order: no two allocations
// overlap, nobody writes into another's, all of it comes back, and the last page can be had, also
// if another process had it a moment ago. Memory is freed behind streams, while host functions are
// under way, and with its context, too. With "at FIRST BYTES" as arguments all of it must lie
// there.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "check.h"

constexpr size_t kPage = size_t{2} << 20;
constexpr int kThreads = 4, kProcesses = 3, kSteps = 400;

struct Piece {
    char *base;
    size_t bytes;
    unsigned char mark;
};

struct Model {
    std::mutex mutex;
    std::map<char *, size_t> alive;

    void add(const Piece &p)
    {
        std::lock_guard<std::mutex> lock(mutex);
        const auto next = alive.lower_bound(p.base);
        TRUE(next == alive.end() || next->first >= p.base + p.bytes);
        TRUE(next == alive.begin() || std::prev(next)->first + std::prev(next)->second <= p.base);
        alive[p.base] = p.bytes;
    }
    // Before it is freed: its addresses may be another's at once.
    void remove(const Piece &p)
    {
        std::lock_guard<std::mutex> lock(mutex);
        alive.erase(p.base);
    }
};

static uintptr_t first = 0, room = 0;
// How many bytes of a device's memory a driver may take and give back for itself.
static size_t for_itself = 0;
static bool near(size_t a, size_t b) { return a <= b + for_itself && b <= a + for_itself; }
static Model model;

// The ends of a piece, where neighbours would meet it.
static std::vector<std::pair<char *, size_t>> ends(const Piece &p)
{
    const size_t end = std::min<size_t>(p.bytes, 4096);
    return {{p.base, end}, {p.base + p.bytes - end, end}};
}

static void mark(const Piece &p, cudaStream_t stream)
{
    for (const auto &[at, bytes] : ends(p)) CHECK(cudaMemsetAsync(at, p.mark, bytes, stream));
}

static void look(const Piece &p, cudaStream_t stream)
{
    for (const auto &[at, bytes] : ends(p)) {
        std::vector<unsigned char> got(bytes);
        CHECK(cudaMemcpyAsync(got.data(), at, bytes, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (unsigned char c : got) EXPECT(c == p.mark, "%d for %d of %zu", c, p.mark, p.bytes);
    }
}

static bool take(Piece &p, size_t bytes, unsigned char mark)
{
    const cudaError_t r = cudaMalloc(&p.base, bytes);
    if (r == cudaErrorMemoryAllocation) return cudaGetLastError(), false;
    CHECK(r);
    p.bytes = bytes, p.mark = mark;
    const auto address = reinterpret_cast<uintptr_t>(p.base);
    EXPECT(!room || (address >= first && address - first + bytes <= room), "%p", (void *)p.base);
    CUdeviceptr base = 0;
    size_t size = 0;
    DRIVER(cuMemGetAddressRange(&base, &size, address + bytes - 1));
    EXPECT(base == address && size == bytes, "%zu of %zu bytes", size, bytes);
    model.add(p);
    return true;
}

static void give(const Piece &p)
{
    model.remove(p);
    CHECK(cudaFree(p.base));
}

static void give_behind(const Piece &p, cudaStream_t stream)
{
    model.remove(p);
    CHECK(cudaFreeAsync(p.base, stream));
}

static void CUDART_CB nothing(void *) {}

static void walk(unsigned seed, size_t most)
{
    std::mt19937 random(seed);
    std::vector<Piece> mine;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < kSteps; i++) {
        const unsigned bits = random() % 28;
        const size_t bytes = std::min((size_t{1} << bits) + random() % (size_t{1} << bits), most);
        Piece p{};
        if (random() % 100 < 55 && take(p, bytes, random() % 256)) {
            mark(p, stream);
            mine.push_back(p);
        } else if (!mine.empty()) {
            std::swap(mine[random() % mine.size()], mine.back());
            look(mine.back(), stream);
            // Workers without a band may wait for it where they must not: not part of this test.
            if (room && random() % 10 == 0) CHECK(cudaLaunchHostFunc(stream, nothing, nullptr));
            random() % 8 ? give(mine.back()) : give_behind(mine.back(), stream);
            mine.pop_back();
        }
    }
    for (const Piece &p : mine) {
        look(p, stream);
        give(p);
    }
    CHECK(cudaStreamDestroy(stream));
}

static int process(unsigned seed)
{
    size_t free = 0, total = 0;
    CHECK(cudaMemGetInfo(&free, &total));
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; i++)
        threads.emplace_back([=] { walk(seed * kThreads + i, total / 2); });
    for (std::thread &t : threads) t.join();
    TRUE(model.alive.empty());
    return 0;
}

// All that there is, page by page, and in pieces of which each page holds so many.
static void to_the_last_page(size_t bytes, size_t in_a_page)
{
    size_t free = 0, total = 0, left = 0;
    CHECK(cudaMemGetInfo(&free, &total));
    std::vector<Piece> all;
    for (Piece p{}; take(p, bytes, 0);) all.push_back(p);
    EXPECT(all.size() == free / kPage * in_a_page, "%zu pieces of %zu in %zu bytes", all.size(),
           bytes, free);
    CHECK(cudaMemGetInfo(&left, &total));
    EXPECT(left == free % kPage, "%zu bytes left", left);
    for (const Piece &p : all) give(p);
    CHECK(cudaMemGetInfo(&left, &total));
    EXPECT(left == free, "%zu bytes free of %zu", left, free);
}

// Memory of a context ends with it, and others get its addresses.
static void ends_with_its_context()
{
    for (unsigned i = 0; i < 10; i++) {
        CUcontext context = nullptr, before = nullptr;
        CUdevice device = 0;
        DRIVER(cuCtxGetCurrent(&before));
        DRIVER(cuCtxGetDevice(&device));
        DRIVER(cuCtxCreate(&context, nullptr, 0, device));
        std::vector<CUdeviceptr> its(20);
        for (size_t n = 0; n < its.size(); n++) {
            DRIVER(cuMemAlloc(&its[n], (n + 1) * 100'000));
            DRIVER(cuMemsetD8(its[n], 0x11, (n + 1) * 100'000));
        }
        DRIVER(cuCtxDestroy(context));
        DRIVER(cuCtxSetCurrent(before));
        std::vector<Piece> mine;
        for (size_t n = 1; n < 20; n++) {
            Piece p{};
            TRUE(take(p, n * 200'000, static_cast<unsigned char>(n)));
            mark(p, nullptr);
            mine.push_back(p);
        }
        for (const Piece &p : mine) {
            look(p, nullptr);
            give(p);
        }
    }
}

// --- another process, which has just freed what this one wants

static int holder(int in, int out)
{
    char go = 0;
    Piece kept{};
    TRUE(take(kept, kPage / 2, 1));
    TRUE(write(out, "r", 1) == 1 && read(in, &go, 1) == 1);
    std::vector<Piece> burst(8);
    for (Piece &p : burst) TRUE(take(p, kPage / 2, 1));
    for (const Piece &p : burst) give(p);
    // cuMemFree does not wait for the server. What it has left there may be this process's credit.
    CHECK(cudaDeviceSynchronize());
    TRUE(write(out, "d", 1) == 1);
    TRUE(read(in, &go, 1) == 0);
    return 0;
}

// What is free when nothing has changed for a while.
static size_t settled_free()
{
    size_t before = 0, now = 0, total = 0;
    for (int same = 0; same < 10; before = now) {
        CHECK(cudaMemGetInfo(&now, &total));
        same = near(now, before) ? same + 1 : 0;
        usleep(50'000);
    }
    return now;
}

static void take_what_another_had(char **argv)
{
    int to[2], from[2];
    TRUE(pipe(to) == 0 && pipe(from) == 0);
    const pid_t child = fork();
    if (!child) {
        close(to[1]), close(from[0]);
        const std::string in = std::to_string(to[0]), out = std::to_string(from[1]);
        execl("/proc/self/exe", argv[0], "holder", in.c_str(), out.c_str(), nullptr);
        _exit(9);
    }
    close(to[0]), close(from[1]);
    char c = 0;
    TRUE(read(from[0], &c, 1) == 1);
    const size_t free = settled_free();
    TRUE(write(to[1], "g", 1) == 1 && read(from[0], &c, 1) == 1);
    std::vector<Piece> all;
    for (Piece p{}; take(p, kPage, 0);) all.push_back(p);
    EXPECT(near(all.size() * kPage, free / kPage * kPage), "%zu pages in %zu bytes", all.size(),
           free);
    for (const Piece &p : all) give(p);
    close(to[1]);
    int status = 1;
    TRUE(waitpid(child, &status, 0) == child && status == 0);
    settled_free();
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "holder")) return holder(atoi(argv[2]), atoi(argv[3]));
    if (argc >= 4 && !strcmp(argv[1], "at")) {
        first = strtoull(argv[2], nullptr, 0), room = strtoull(argv[3], nullptr, 0);
        if (argc == 5) return process(atoi(argv[4]));
    } else if (argc == 2) {
        return process(atoi(argv[1]));
    }
    size_t before = 0, after = 0, total = 0;
    CHECK(cudaFree(nullptr));
    CHECK(cudaMemGetInfo(&before, &total));
    for_itself = on_softgpu() ? 0 : total / 50;
    pid_t children[kProcesses];
    for (int i = 0; i < kProcesses; i++) {
        children[i] = fork();
        if (children[i]) continue;
        const std::string seed = std::to_string(i + 1);
        if (room)
            execl("/proc/self/exe", argv[0], "at", argv[2], argv[3], seed.c_str(), nullptr);
        else
            execl("/proc/self/exe", argv[0], seed.c_str(), nullptr);
        _exit(9);
    }
    TRUE(process(0) == 0);
    for (pid_t child : children) {
        int status = 1;
        TRUE(waitpid(child, &status, 0) == child && status == 0);
    }
    // A server may take a moment to see that a process has ended.
    for (int i = 0; i < 200; i++) {
        CHECK(cudaMemGetInfo(&after, &total));
        if (near(after, before)) break;
        usleep(50'000);
    }
    EXPECT(near(after, before), "%zu bytes free, %zu before", after, before);
    ends_with_its_context();
    take_what_another_had(argv);
    if (for_itself) return right();  // no page is the last one for sure
    to_the_last_page(kPage, 1);
    to_the_last_page(kPage / 2, 2);
    to_the_last_page(kPage - 1, 1);
    to_the_last_page(100'000, kPage / 100'352);
    return right();
}
