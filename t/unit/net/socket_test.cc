// SPDX-License-Identifier: Apache-2.0
// What both ends of a connection are set to, and what fails.
#include "net/transport/socket.h"

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

using namespace rgpu;
using namespace std::chrono_literals;

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t size = sizeof value;
    cr_assert_eq(getsockopt(fd, level, name, &value, &size), 0);
    return value;
}

static int no_delay(int fd) { return option(fd, IPPROTO_TCP, TCP_NODELAY); }

Test(socket, neither_end_holds_small_writes_back)
{
    auto listening = net::listen("127.0.0.1:0");
    cr_assert(listening.has_value());
    auto client = net::connect("127.0.0.1:" + std::to_string(net::local_port(listening->get())),
                               net::Clock::now() + 10s);
    cr_assert(client.has_value());
    Fd server(accept(listening->get(), nullptr, nullptr));
    cr_assert(static_cast<bool>(server));
    cr_expect_neq(no_delay(client->get()), 0);
    cr_expect_neq(no_delay(server.get()), 0);
}

Test(socket, both_ends_notice_within_two_minutes_that_the_other_host_is_gone)
{
    auto listening = net::listen("127.0.0.1:0");
    cr_assert(listening.has_value());
    auto client = net::connect("127.0.0.1:" + std::to_string(net::local_port(listening->get())),
                               net::Clock::now() + 10s);
    cr_assert(client.has_value());
    Fd server(accept(listening->get(), nullptr, nullptr));
    cr_assert(static_cast<bool>(server));
    for (int fd : {client->get(), server.get()}) {
        cr_expect_neq(option(fd, SOL_SOCKET, SO_KEEPALIVE), 0);
        int silence = option(fd, IPPROTO_TCP, TCP_KEEPIDLE) +
                      option(fd, IPPROTO_TCP, TCP_KEEPINTVL) * option(fd, IPPROTO_TCP, TCP_KEEPCNT);
        cr_expect(silence > 60 && silence <= 120, "after %d s", silence);
    }
}

Test(socket, a_port_that_nobody_listens_on_is_named)
{
    auto listening = net::listen("127.0.0.1:0");
    cr_assert(listening.has_value());
    const std::string address = "127.0.0.1:" + std::to_string(net::local_port(listening->get()));
    listening->reset();
    auto client = net::connect(address, net::Clock::now() + 10s);
    cr_assert(!client.has_value());
    cr_expect_eq(client.error().kind, ErrorKind::disconnected);
    cr_expect(client.error().text.find(address) != std::string::npos, "%s",
              client.error().text.c_str());
}
