// SPDX-License-Identifier: Apache-2.0
#include "worker/connection/control.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>
#include <thread>

#include "serverd/handover.h"
#include "util/fd.h"
#include "wire/lanes.h"
#include "worker/connection/lanes.h"
#include "worker/limits/memory_cap.h"

namespace rgpu::worker {

namespace {

constexpr int kBacklog = 2 * wire::kMostLanes;  // they come together

// Says who this is, and does what rgpud came for: takes a lane, or (told to get ready) counts the
// memory that is held, as the lease gets another size. rgpud knows by the end of the connection
// that this is done.
void serve(int peer, const std::string &line)
{
    constexpr timeval kMost{1, 0};
    send(peer, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &kMost, sizeof kMost);
    const auto look = [] {
        if (MemoryCap *cap = memory_cap()) cap->heed();
    };
    if (auto given = serverd::take_over(peer, look)) keep_lane(std::move(given->socket));
}

[[noreturn]] void answer(int fd, const std::string &lease)
{
    const std::string line = "{\"pid\": " + std::to_string(getpid()) + ", \"lease\": \"" + lease +
                             "\"}\n";
    for (;;) {
        Fd peer(accept4(fd, nullptr, nullptr, SOCK_CLOEXEC));
        if (peer)
            serve(peer.get(), line);
        else if (errno != EINTR && errno != ECONNABORTED)
            usleep(100'000);  // out of descriptors: no busy loop
    }
}

}  // namespace

void serve_control(int fd, const std::string &lease)
{
    // listen() in this process is what makes its pid the one that the kernel tells.
    int type = 0;
    socklen_t size = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &type, &size) != 0 || type != AF_UNIX ||
        listen(fd, kBacklog) != 0)
        return;
    try {
        std::thread(answer, fd, lease).detach();
    } catch (const std::system_error &failure) {
        fprintf(stderr, "rgpu-worker: no control thread: %s\n", failure.what());
    }
}

}  // namespace rgpu::worker
