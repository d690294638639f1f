// SPDX-License-Identifier: Apache-2.0
// What this machine's memory and loopback allow a copy: stream CLIENT_PROCESSOR SERVER_PROCESSOR
//
// A large copy to a GPU that is memory of the same host is, on the server's side, two copies of
// each byte: the kernel's out of the socket, and the driver's to where it belongs. This does just
// these, and nothing of rgpu's: one process sends 64 MiB of its memory again and again, the other
// receives half a megabyte at a time and copies it on; and the other way round. Prints lines of
// name, value, unit.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr size_t kBytes = 64 << 20, kChunk = 512 << 10, kRounds = 24;

[[noreturn]] void fail(const char *what)
{
    perror(what);
    exit(1);
}

void pin(int processor)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) fail("sched_setaffinity");
}

std::vector<uint8_t> memory()
{
    std::vector<uint8_t> v(kBytes);
    uint64_t x = 1;
    for (size_t i = 0; i < kBytes; i += sizeof x) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        memcpy(&v[i], &x, sizeof x);
    }
    return v;
}

// As rgpu's connections on one host are: with more unsent bytes in the kernel and with bbr this is
// slower by up to a third.
void prepare(int fd)
{
    const int yes = 1, unsent = 512 << 10;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

void send_all(int fd, const uint8_t *p, size_t n)
{
    for (ssize_t went; n; p += went, n -= static_cast<size_t>(went))
        if ((went = send(fd, p, n, MSG_NOSIGNAL)) <= 0) fail("send");
}

void receive_all(int fd, uint8_t *p, size_t n)
{
    for (ssize_t came; n; p += came, n -= static_cast<size_t>(came))
        if ((came = recv(fd, p, n, 0)) <= 0) fail("recv");
}

// The server: what comes is copied to its place, then what lies there is copied and sent.
void serve(int fd)
{
    auto place = memory();
    std::vector<uint8_t> chunk(kChunk);
    for (size_t round = 0; round < kRounds; round++)
        for (size_t at = 0; at < kBytes; at += kChunk) {
            receive_all(fd, chunk.data(), kChunk);
            memcpy(&place[at], chunk.data(), kChunk);
        }
    send_all(fd, chunk.data(), 1);
    for (size_t round = 0; round < kRounds; round++)
        for (size_t at = 0; at < kBytes; at += kChunk) {
            memcpy(chunk.data(), &place[at], kChunk);
            send_all(fd, chunk.data(), kChunk);
        }
}

void measure(int fd)
{
    using Clock = std::chrono::steady_clock;
    auto own = memory();
    const auto rate = [](const char *name, Clock::time_point since) {
        const double seconds = std::chrono::duration<double>(Clock::now() - since).count();
        printf("%s %f GB/s\n", name, static_cast<double>(kBytes * kRounds) * 1e-9 / seconds);
    };
    auto begin = Clock::now();
    for (size_t round = 0; round < kRounds; round++) send_all(fd, own.data(), kBytes);
    uint8_t done;
    receive_all(fd, &done, 1);
    rate("stream.to_memory", begin);
    begin = Clock::now();
    for (size_t round = 0; round < kRounds; round++) receive_all(fd, own.data(), kBytes);
    rate("stream.from_memory", begin);
}

}  // namespace

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: stream CLIENT_PROCESSOR SERVER_PROCESSOR\n", stderr);
        return 2;
    }
    const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof here;
    auto address = reinterpret_cast<sockaddr *>(&here);
    if (bind(listening, address, size) != 0 || listen(listening, 1) != 0 ||
        getsockname(listening, address, &size) != 0)
        fail("no socket");
    const pid_t child = fork();
    if (child < 0) fail("fork");
    if (!child) {
        pin(atoi(argv[2]));
        const int fd = accept(listening, nullptr, nullptr);
        if (fd < 0) fail("accept");
        prepare(fd);
        serve(fd);
        _exit(0);
    }
    pin(atoi(argv[1]));
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, address, size) != 0) fail("connect");
    prepare(fd);
    measure(fd);
    int status = 1;
    waitpid(child, &status, 0);
    return status != 0;
}
