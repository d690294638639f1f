// SPDX-License-Identifier: Apache-2.0
#include "net/transport/queues.h"

#include <criterion/criterion.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <vector>

#include "net/transport/socket.h"

using namespace rgpu;
using namespace std::chrono_literals;

namespace {

// A connection over loopback, whose far end nobody reads.
struct Pair {
    Pair()
    {
        auto listener = net::listen("127.0.0.1:0");
        cr_assert(listener);
        auto connected =
            net::connect("127.0.0.1:" + std::to_string(net::local_port(listener->get())),
                         net::Clock::now() + 30s);
        cr_assert(connected);
        near = std::move(*connected);
        far = Fd(accept(listener->get(), nullptr, nullptr));
        cr_assert(far);
    }
    // Sends until the kernel takes no more: what of it has not left.
    int unsent()
    {
        const std::vector<char> bytes(64 << 10);
        while (send(near.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {}
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
