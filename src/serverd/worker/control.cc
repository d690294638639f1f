#include "serverd/worker/control.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <system_error>
#include <thread>

#include "util/fd.h"

namespace rgpu::worker {

namespace {

constexpr int kBacklog = 16;

[[noreturn]] void answer(int fd)
{
    const char *lease = getenv("RGPU_WORKER_LEASE");
    const std::string line =
        "{\"pid\": " + std::to_string(getpid()) + ", \"lease\": \"" + (lease ? lease : "") + "\"}\n";
    for (;;) {
        Fd peer(accept4(fd, nullptr, nullptr, SOCK_CLOEXEC));
        if (peer)
            send(peer.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        else if (errno != EINTR && errno != ECONNABORTED)
            usleep(100'000);  // out of descriptors: no busy loop
    }
}

}  // namespace

void serve_control(int fd)
{
    // listen() in this process is what makes its pid the one that the kernel tells.
    int type = 0;
    socklen_t size = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &type, &size) != 0 || type != AF_UNIX || listen(fd, kBacklog) != 0)
        return;
    try {
        std::thread(answer, fd).detach();
    } catch (const std::system_error &failure) {
        fprintf(stderr, "rgpu-worker: no control thread: %s\n", failure.what());
    }
}

}  // namespace rgpu::worker
