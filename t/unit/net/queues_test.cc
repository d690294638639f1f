#include "net/queues.h"

#include <criterion/criterion.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <vector>

#include "net/socket.h"

using namespace rgpu;
using namespace std::chrono_literals;

namespace {

constexpr int kReceive = 2;  // linux/socket.h: SOCK_RCVBUF_LOCK

// A connection over loopback, whose far end nobody reads.
struct Pair {
    Pair()
    {
        auto listener = net::listen("127.0.0.1:0");
        cr_assert(listener);
        auto connected = net::connect("127.0.0.1:" + std::to_string(net::local_port(listener->get())), net::Clock::now() + 30s);
        cr_assert(connected);
        near = std::move(*connected);
        far = Fd(accept(listener->get(), nullptr, nullptr));
        cr_assert(far);
    }
    // Sends until the kernel takes no more: what of it has not left.
    int unsent()
    {
        const std::vector<char> bytes(64 << 10);
        while (send(near.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
        }
        cr_assert(errno == EAGAIN);
        int n = -1;
        cr_assert(ioctl(near.get(), SIOCOUTQNSD, &n) == 0);
        return n;
    }

    Fd near, far;
};

}  // namespace

Test(queues, little_waits_unsent)
{
    Pair bounded;
    net::bound_queues(bounded.near.get());
    const int n = bounded.unsent();
    cr_expect(n <= (512 + 2 * 64) << 10, "%d bytes", n);
}

Test(queues, a_near_peer_has_a_small_window_and_one_that_is_no_peer_none)
{
    Pair pair;
    net::bound_queues(pair.near.get());
    int lock = -1, bytes = 0;
    socklen_t size = sizeof lock;
    if (getsockopt(pair.near.get(), SOL_SOCKET, SO_BUF_LOCK, &lock, &size) == 0 && lock & kReceive) {
        cr_assert(getsockopt(pair.near.get(), SOL_SOCKET, SO_RCVBUF, &bytes, &size) == 0);
        cr_expect(bytes <= 2 << 20, "%d bytes", bytes);
    }
    int both[2];
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, both) == 0);
    const Fd one(both[0]), other(both[1]);
    int before = 0, after = 0;
    cr_assert(getsockopt(one.get(), SOL_SOCKET, SO_RCVBUF, &before, &size) == 0);
    net::bound_queues(one.get());
    cr_assert(getsockopt(one.get(), SOL_SOCKET, SO_RCVBUF, &after, &size) == 0);
    cr_expect(before == after);
}
