#include "net/queues.h"

#include <criterion/criterion.h>
#include <linux/socket.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <vector>

#include "net/socket.h"

using namespace rgpu;
using namespace std::chrono_literals;

namespace {

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

    // So many bytes, read as fast as they come.
    void pass(size_t bytes)
    {
        std::thread sender([&] {
            const std::vector<char> out(1 << 20);
            ssize_t n = 0;
            for (size_t sent = 0; sent < bytes && n >= 0; sent += static_cast<size_t>(n)) n = send(near.get(), out.data(), std::min(out.size(), bytes - sent), MSG_NOSIGNAL);
        });
        std::vector<char> in(1 << 20);
        ssize_t n = 1;
        for (size_t got = 0; got < bytes && n > 0; got += static_cast<size_t>(n)) n = recv(far.get(), in.data(), in.size(), 0);
        sender.join();
        cr_assert(n > 0);
    }
    int of_far(int option)
    {
        int value = -1;
        socklen_t size = sizeof value;
        cr_assert(getsockopt(far.get(), SOL_SOCKET, option, &value, &size) == 0);
        return value;
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

Test(queues, little_waits_unread, .timeout = 60)
{
    constexpr size_t kMuch = 256 << 20;
    Pair bounded;
    int now = 0;
    socklen_t size = sizeof now;
    if (getsockopt(bounded.far.get(), SOL_SOCKET, SO_BUF_LOCK, &now, &size) != 0) cr_skip_test("the kernel does not know SO_BUF_LOCK");
    net::bound_unread_on_one_host(bounded.far.get());
    cr_expect(bounded.of_far(SO_RCVLOWAT) == 1, "who waits for one byte is told of it");
    cr_expect(bounded.of_far(SO_BUF_LOCK) == SOCK_RCVBUF_LOCK);
    const int before = bounded.of_far(SO_RCVBUF);
    cr_expect(before >= 1 << 20, "%d bytes", before);
    bounded.pass(kMuch);
    cr_expect(bounded.of_far(SO_RCVBUF) == before, "%d bytes, which were %d", bounded.of_far(SO_RCVBUF), before);
    bounded.unsent();
    int unread = -1;
    cr_assert(ioctl(bounded.far.get(), SIOCINQ, &unread) == 0);
    cr_expect(unread > 0 && unread <= before, "%d bytes in %d", unread, before);
}
