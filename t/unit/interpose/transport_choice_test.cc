// SPDX-License-Identifier: Apache-2.0
// What carries a connection, by what is wanted and what there is. The worker is a thread.
#include "interpose/link/transport_choice.h"

#include <criterion/criterion.h>
#include <sys/socket.h>

#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "wire/frame.h"

using namespace rgpu;
using namespace rgpu::interpose;
using namespace std::chrono_literals;

namespace {

struct Link {
    net::DataConnection mine;
    Fd theirs;

    explicit Link(bool takes_ucx)
    {
        int ends[2];
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        mine.fd = Fd(ends[0]), theirs = Fd(ends[1]);
        mine.takes_ucx = takes_ucx;
    }
};

net::Deadline soon() { return net::Clock::now() + 60s; }

TransportChoice choice(const char *wanted, bool rdma)
{
    setenv("RGPU_TRANSPORT", wanted, 1);
    setenv("RGPU_UCX_TLS", "tcp", 0);
    setenv("RGPU_UCX_NET_DEVICES", "lo", 0);
    auto w = TransportChoice::wanted(rdma);
    cr_assert(w.has_value());
    return std::move(*w);
}

// A worker that has no UCX. Whether it was offered.
bool decline(int fd)
{
    wire::FrameHeader h;
    if (!net::receive_all(fd, &h, sizeof h, soon())) return false;
    std::vector<uint8_t> body(h.bytes);
    cr_assert(h.type == wire::kUcxOfferCall &&
              net::receive_all(fd, body.data(), body.size(), soon()));
    constexpr char kWhy[] = "no such thing";
    wire::FrameHeader answer;
    answer.type = static_cast<uint16_t>(wire::ServerFrame::reply);
    answer.bytes = sizeof kWhy - 1;
    answer.value = 801;
    cr_assert(net::send_all(fd, &answer, sizeof answer, soon()) &&
              net::send_all(fd, kWhy, sizeof kWhy - 1, soon()));
    return true;
}

// What carries a connection to such a worker, or the error.
std::string carried_by(TransportChoice w, Link &link, bool &offered)
{
    std::thread worker([&] { offered = decline(link.theirs.get()); });
    std::string result;
    if (auto r = w.offer(link.mine, soon()); !r) {
        result = r.error().text;
    } else {
        ::shutdown(link.mine.fd.get(), SHUT_WR);
        auto settled = w.settle(link.mine, soon());
        result = settled ? (*settled)->name() : settled.error().text;
    }
    ::shutdown(link.theirs.get(), SHUT_RD);
    worker.join();
    return result;
}

bool built_with_ucx()
{
    auto t = net::UcxTransport::open();
    return t || !strstr(t.error().text.c_str(), "built without UCX");
}

}  // namespace

Test(transport_choice, an_unknown_name_is_refused)
{
    setenv("RGPU_TRANSPORT", "pigeon", 1);
    auto w = TransportChoice::wanted();
    cr_assert(!w && w.error().kind == ErrorKind::invalid);
}

Test(transport_choice, auto_offers_ucx_where_there_is_rdma_alone)
{
    if (!built_with_ucx()) cr_skip_test("built without UCX");
    bool offered = false;
    Link without(true);
    cr_expect_str_eq(carried_by(choice("auto", false), without, offered).c_str(), "tcp");
    cr_expect(!offered);
    Link with(true);
    cr_expect_str_eq(carried_by(choice("auto", true), with, offered).c_str(), "tcp",
                     "declined: TCP, without a word");
    cr_expect(offered);
    Link old(false);
    cr_expect_str_eq(carried_by(choice("auto", true), old, offered).c_str(), "tcp");
    cr_expect(!offered, "a server that does not take it is not asked");
    Link tcp(true);
    cr_expect_str_eq(carried_by(choice("tcp", true), tcp, offered).c_str(), "tcp");
    cr_expect(!offered);
}

Test(transport_choice, auto_needs_no_library)
{
    setenv("RGPU_UCX_LIBRARY", "/nonexistent/libucp.so.0", 1);
    bool offered = false;
    Link link(true);
    cr_expect_str_eq(carried_by(choice("auto", true), link, offered).c_str(), "tcp");
    cr_expect(!offered);
}

Test(transport_choice, ucx_says_why_not)
{
    bool offered = false;
    Link link(true), old(false);
    if (built_with_ucx()) {
        const std::string why = carried_by(choice("ucx", false), link, offered);
        cr_expect(offered && why == "RGPU_TRANSPORT is ucx, and on the server: no such thing", "%s",
                  why.c_str());
    }
    const std::string why = carried_by(choice("ucx", false), old, offered);
    cr_expect(!offered && why.find("transport = \"ucx\" below [rgpud]") != why.npos, "%s",
              why.c_str());
}
