// SPDX-License-Identifier: Apache-2.0
// Two processes' ends of shared memory as threads, for the thread sanitizer (Criterion does not
// start under it): net_stress [SECONDS]
//
// Each end sends numbers in pieces of all sizes, small and by place, receives what the other sends
// and looks that nothing is missing or twice; a third thread of each waits, too, as the client's
// pump does. Both see the memory at the same addresses, so that the sanitizer knows that it is the
// same. Ends with 1 where a number is not the next.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <random>
#include <sys/mman.h>
#include <sys/socket.h>
#include <thread>
#include <vector>

#include "net/transport/shared_transport.h"

using namespace rgpu;
using namespace rgpu::net;

namespace {

std::atomic<bool> over{false};
std::atomic<uint64_t> carried{0};

void fail(const char *what)
{
    fprintf(stderr, "net_stress: %s\n", what);
    exit(1);
}

// Sends numbers that count up, and half of the large ones from a place of its own.
void produce(Transport &t, unsigned seed)
{
    std::mt19937 dice(seed);
    std::vector<uint32_t> numbers(100000);
    uint32_t next = 0;
    while (!over) {
        const size_t n = dice() % 4 ? 1 + dice() % 50 : 1 + dice() % numbers.size();
        size_t bytes = 0;
        auto *place = n > 1000 && dice() % 2 ? static_cast<uint32_t *>(t.reserve(bytes)) : nullptr;
        uint32_t *at = place ? place : numbers.data();
        const size_t count = place ? std::min(n, bytes / 4) : n;
        for (size_t i = 0; i < count; i++) at[i] = next++;
        for (size_t sent = 0; sent < count * 4;) {
            const iovec part{reinterpret_cast<char *>(at) + sent, count * 4 - sent};
            const ssize_t m = t.send(&part, 1, -1);
            if (m <= 0) {
                if (!over) fail("send failed");
                return;
            }
            sent += static_cast<size_t>(m);
        }
    }
}

void consume(Transport &t, unsigned seed)
{
    std::mt19937 dice(seed);
    std::vector<uint8_t> in(1 << 20);
    uint64_t at = 0;
    for (;;) {
        const Lent lent = t.lend(in.size());
        ssize_t n = static_cast<ssize_t>(lent.bytes);
        const uint8_t *data = static_cast<const uint8_t *>(lent.data);
        if (!data)
            n = t.receive(in.data(), 1 + dice() % (dice() % 2 ? 40 : in.size()), -1),
            data = in.data();
        if (n <= 0) return;
        for (ssize_t i = 0; i < n; i++, at++)
            if (data[i] != static_cast<uint8_t>((at / 4) >> at % 4 * 8))
                fail("a byte is not the next");
        if (lent.data) t.give_back(lent);
        carried += static_cast<uint64_t>(n);
    }
}

void look_on(Transport &t)
{
    while (!over) t.wait(Transport::kData, 1);
}

}  // namespace

int main(int argc, char **argv)
{
    const int seconds = argc > 1 ? atoi(argv[1]) : 5;
    auto memory = make_shared_memory();
    int data[2], room[2];
    if (!memory || socketpair(AF_UNIX, SOCK_STREAM, 0, data) ||
        socketpair(AF_UNIX, SOCK_STREAM, 0, room))
        fail("no memory, no sockets");
    void *p =
        mmap(nullptr, sizeof(SharedMemory), PROT_READ | PROT_WRITE, MAP_SHARED, memory->get(), 0);
    if (p == MAP_FAILED) fail("no memory");
    auto *both = static_cast<SharedMemory *>(p);
    // Never deleted: the memory is both's.
    auto &client =
        *new SharedTransport(both, SharedTransport::Side::client, Fd(data[0]), Fd(room[0]), Fd());
    auto &server =
        *new SharedTransport(both, SharedTransport::Side::server, Fd(data[1]), Fd(room[1]), Fd());
    std::vector<std::thread> threads;
    unsigned seed = 1;
    for (SharedTransport *t : {&client, &server}) {
        threads.emplace_back([=] { produce(*t, seed); });
        threads.emplace_back([=] { consume(*t, seed); });
        threads.emplace_back([=] { look_on(*t); });
        seed++;
    }
    const timespec time = {seconds, 0};
    nanosleep(&time, nullptr);
    over = true;
    client.shutdown(), server.shutdown();
    for (std::thread &t : threads) t.join();
    printf("%llu MB carried\n", static_cast<unsigned long long>(carried >> 20));
    return carried ? 0 : 1;
}
