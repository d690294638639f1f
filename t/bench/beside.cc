// SPDX-License-Identifier: Apache-2.0
// How much later a thread's small calls are answered while another thread copies 64 MiB again and
// again, and, as what the machine allows, the same of TCP: messages there and back on one
// connection beside a stream on another.
//
//   beside                               calls; links libcuda.so.1 and nothing else of CUDA
//   beside rates                         what is copied where nobody else calls
//   beside control CLIENT_CPU SERVER_CPU
//
// Prints KIND.CALL.{p50,p99,max} in us, and KIND.rate in GB/s; KIND is "alone" where nothing is
// copied.
#include <cuda.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr size_t kLarge = 64 << 20, kPart = 1 << 20, kPing = 64;
constexpr auto kTime = 1500ms;  // of each call of each kind
constexpr auto kPause =
    200us;  // between calls: what is slow for a moment is met as often as it lasts

double us(Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

[[noreturn]] void fail(const char *what)
{
    fprintf(stderr, "beside: %s\n", what);
    _exit(1);
}

// Calls `call` for a while and prints how long it took.
void sample(const std::string &name, const std::function<void()> &call)
{
    for (int i = 0; i < 20; i++) call();
    std::vector<double> took;
    for (const auto end = Clock::now() + kTime; Clock::now() < end;) {
        std::this_thread::sleep_for(kPause);
        const auto begin = Clock::now();
        call();
        took.push_back(us(Clock::now() - begin));
    }
    std::sort(took.begin(), took.end());
    const auto at = [&](double part) {
        return took[static_cast<size_t>(part * static_cast<double>(took.size() - 1) + .5)];
    };
    printf("%s.p50 %.6g us\n%s.p99 %.6g us\n%s.max %.6g us\n", name.c_str(), at(.5), name.c_str(),
           at(.99), name.c_str(), took.back());
    fflush(stdout);
}

// Runs `measure` while another thread calls `copy`, which moves kLarge bytes, again and again.
void beside(const std::string &kind, const std::function<void()> &begin,
            const std::function<void()> &copy, const std::function<void()> &measure)
{
    std::atomic<bool> stop{false};
    std::atomic<unsigned> copies{0};
    std::thread other([&] {
        begin();
        while (!stop) copy(), copies++;
    });
    while (!copies) std::this_thread::yield();
    const auto since = Clock::now();
    const unsigned before = copies;
    measure();
    const double rate = static_cast<double>(copies - before) * kLarge / us(Clock::now() - since) /
                        1e3;
    stop = true;
    other.join();
    printf("%s.rate %.6g GB/s\n", kind.c_str(), rate);
}

// --- calls

#define CK(call) \
    do { \
        if (const CUresult result = (call)) \
            fprintf(stderr, "beside: %s: error %d\n", #call, result), _exit(1); \
    } while (0)

constexpr char kPtx[] =
    ".version 6.4\n.target sm_75\n.address_size 64\n.visible .entry do_nothing()\n{\n    ret;\n}\n";

int calls(bool rates)
{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction nothing;
    CK(cuInit(0));
    CK(cuDeviceGet(&device, 0));
    CK(cuDevicePrimaryCtxRetain(&context, device));
    CK(cuCtxSetCurrent(context));
    CK(cuModuleLoadData(&module, kPtx));
    CK(cuModuleGetFunction(&nothing, module, "do_nothing"));
    CUstream large_stream, stream;
    CUevent event;
    CUdeviceptr large, small;
    void *pageable = aligned_alloc(4096, kLarge), *pinned;
    CK(cuStreamCreate(&large_stream, CU_STREAM_NON_BLOCKING));
    CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CK(cuMemAlloc(&large, kLarge));
    CK(cuMemAlloc(&small, 4096));
    CK(cuMemHostAlloc(&pinned, kLarge, 0));
    for (size_t i = 0; i < kLarge / 8; i++)
        static_cast<uint64_t *>(pageable)[i] = static_cast<uint64_t *>(pinned)[i] =
            i * 0x9e3779b97f4a7c15;
    CK(cuMemcpyHtoD(large, pageable, kLarge));

    int word = 0;
    const auto small_calls = [&](const std::string &kind) {
        if (rates) return std::this_thread::sleep_for(kTime);
        sample(kind + ".dtoh_4B", [&] { CK(cuMemcpyDtoHAsync(&word, small, 4, stream)); });
        sample(kind + ".htod_4B_then_sync", [&] {
            CK(cuMemcpyHtoDAsync(small, &word, 4, stream));
            CK(cuStreamSynchronize(stream));
        });
        sample(kind + ".launch_then_sync", [&] {
            CK(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
            CK(cuStreamSynchronize(stream));
        });
        sample(kind + ".record_then_query", [&] {
            CK(cuEventRecord(event, stream));
            if (const CUresult r = cuEventQuery(event); r != CUDA_ERROR_NOT_READY) CK(r);
        });
    };
    const auto current = [&] { CK(cuCtxSetCurrent(context)); };
    if (!rates) small_calls("alone");
    for (const bool is_pinned : {false, true}) {
        void *host = is_pinned ? pinned : pageable;
        const std::string memory = is_pinned ? "pinned" : "pageable";
        beside(
            "htod." + memory, current, [&] { CK(cuMemcpyHtoD(large, host, kLarge)); },
            [&] { small_calls("htod." + memory); });
        beside(
            "dtoh." + memory, current, [&] { CK(cuMemcpyDtoH(host, large, kLarge)); },
            [&] { small_calls("dtoh." + memory); });
    }
    const auto then_wait = [&](CUresult copied) {
        CK(copied);
        CK(cuStreamSynchronize(large_stream));
    };
    beside(
        "htod_async.pinned", current,
        [&] { then_wait(cuMemcpyHtoDAsync(large, pinned, kLarge, large_stream)); },
        [&] { small_calls("htod_async.pinned"); });
    beside(
        "dtoh_async.pinned", current,
        [&] { then_wait(cuMemcpyDtoHAsync(pinned, large, kLarge, large_stream)); },
        [&] { small_calls("dtoh_async.pinned"); });
    if (memcmp(pinned, pageable, kLarge) != 0) fail("a copy brought other bytes");
    return 0;
}

// --- TCP

void all(ssize_t (*move)(int, char *, size_t), int fd, char *p, size_t bytes)
{
    while (bytes) {
        const ssize_t n = move(fd, p, bytes);
        if (n <= 0) _exit(0);
        p += n, bytes -= static_cast<size_t>(n);
    }
}
void get(int fd, char *p, size_t n)
{
    all([](int f, char *q, size_t m) { return read(f, q, m); }, fd, p, n);
}
void put(int fd, char *p, size_t n)
{
    all([](int f, char *q, size_t m) { return send(f, q, m, MSG_NOSIGNAL); }, fd, p, n);
}

void pin(const char *processor)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(atoi(processor)), &set);
    if (sched_setaffinity(0, sizeof set, &set)) fail("sched_setaffinity");
}

// Another process: echoes on the first connection, takes what comes on the second, and on the third
// sends a large copy for each byte.
void serve(int listener, const char *processor)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(processor);
    int fds[3];
    for (int &fd : fds) fd = accept(listener, nullptr, nullptr);
    std::vector<std::thread> threads;
    threads.emplace_back([&] {
        for (char ping[kPing];;) get(fds[0], ping, kPing), put(fds[0], ping, kPing);
    });
    threads.emplace_back([&] {
        std::vector<char> part(kPart);
        for (;;) {
            for (size_t n = 0; n < kLarge; n += kPart) get(fds[1], part.data(), kPart);
            put(fds[1], part.data(), 1);
        }
    });
    threads.emplace_back([&] {
        std::vector<char> part(kPart);
        for (;;) {
            get(fds[2], part.data(), 1);
            for (size_t n = 0; n < kLarge; n += kPart) put(fds[2], part.data(), kPart);
        }
    });
    for (auto &t : threads) t.join();
}

int control(const char *client, const char *server)
{
    const int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    const auto where = reinterpret_cast<sockaddr *>(&address);
    setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (bind(listener, where, size) || listen(listener, 3) || getsockname(listener, where, &size))
        fail("listen");
    const pid_t child = fork();
    if (!child) serve(listener, server), _exit(0);
    pin(client);
    int fds[3];
    for (int &fd : fds) {
        fd = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (connect(fd, where, size)) fail("connect");
    }
    std::vector<char> large(kLarge, 1);
    char ping[kPing] = {}, byte = 0;
    const auto small = [&](const std::string &kind) {
        sample(kind + ".ping", [&] { put(fds[0], ping, kPing), get(fds[0], ping, kPing); });
    };
    small("alone");
    beside(
        "htod", [] {},
        [&] {
            for (size_t n = 0; n < kLarge; n += kPart) put(fds[1], large.data() + n, kPart);
            get(fds[1], &byte, 1);
        },
        [&] { small("htod"); });
    beside(
        "dtoh", [] {}, [&] { put(fds[2], &byte, 1), get(fds[2], large.data(), kLarge); },
        [&] { small("dtoh"); });
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    return 0;
}

}  // namespace

int main(int argc, char **argv)
{
    alarm(280);
    if (argc == 4 && !strcmp(argv[1], "control")) return control(argv[2], argv[3]);
    return calls(argc == 2 && !strcmp(argv[1], "rates"));
}
