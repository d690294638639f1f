// SPDX-License-Identifier: Apache-2.0
#include "net/transport/pacing.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstring>
#include <fstream>
#include <string>

#include "net/transport/socket.h"

using namespace rgpu;
using namespace std::chrono_literals;

namespace {

std::string congestion_control(int fd)
{
    char name[16] = {};
    socklen_t size = sizeof name;
    cr_assert_eq(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size), 0);
    return name;
}

std::string what_the_host_uses()
{
    std::string name;
    std::ifstream("/proc/sys/net/ipv4/tcp_congestion_control") >> name;
    return name;
}

// Both ends of a connection to that address, before anything is said of them.
struct Pair {
    Fd near{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)}, far;

    explicit Pair(const char *host)
    {
        auto listener = net::listen(std::string(host) + ":0");
        cr_assert(listener);
        sockaddr_in to{};
        to.sin_family = AF_INET,
        to.sin_port = htons(static_cast<uint16_t>(net::local_port(listener->get())));
        inet_pton(AF_INET, host, &to.sin_addr);
        cr_assert_eq(::connect(near.get(), reinterpret_cast<sockaddr *>(&to), sizeof to), 0);
        far = Fd(accept(listener->get(), nullptr, nullptr));
        cr_assert(far);
    }
};

}  // namespace

Test(pacing, both_ends_on_one_host_do_without)
{
    for (const char *host : {"127.0.0.1", "127.0.0.2"}) {
        Pair pair(host);
        for (const Fd *fd : {&pair.near, &pair.far}) {
            cr_assert_eq(congestion_control(fd->get()), what_the_host_uses());
            net::send_unpaced_on_one_host(fd->get());
            cr_expect_eq(congestion_control(fd->get()), "reno", "%s: %s", host,
                         congestion_control(fd->get()).c_str());
        }
    }
}

Test(pacing, a_client_on_the_servers_host_has_none)
{
    auto listener = net::listen("127.0.0.1:0");
    cr_assert(listener);
    auto client = net::connect("127.0.0.1:" + std::to_string(net::local_port(listener->get())),
                               net::Clock::now() + 30s);
    cr_assert(client);
    cr_expect_eq(congestion_control(client->get()), "reno");
}

Test(pacing, sockets_that_are_not_connected_or_not_tcp_are_left_alone)
{
    Fd tcp(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    net::send_unpaced_on_one_host(tcp.get());
    cr_expect_eq(congestion_control(tcp.get()), what_the_host_uses());
    int ends[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    Fd one(ends[0]), other(ends[1]);
    net::send_unpaced_on_one_host(one.get());
    char byte = 'x';
    cr_expect_eq(send(one.get(), &byte, 1, 0), 1);
}
