// SPDX-License-Identifier: Apache-2.0
// rgpu-spawner: the part of rgpud that is root. It starts workers for an rgpud that is not.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>

#include "spawner/groups.h"
#include "spawner/protocol.h"
#include "util/packet.h"

namespace rgpu::spawner {
namespace {

// As rgpud --spawner leaves them.
constexpr int kSettings = 3, kListener = 4, kCaches = 5, kImages = 6, kConnected = 7;

bool is_rgpud(const Fd &peer, const Settings &settings)
{
    ucred who{};
    socklen_t size = sizeof who;
    return getsockopt(peer.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
           who.uid == settings.user;
}

// False: the connection is to be closed.
bool serve(Groups &groups, int peer)
{
    static Request request;
    std::vector<Fd> descriptors;
    const ssize_t bytes =
        receive_packet(peer, &request, sizeof request, descriptors, kMostDescriptors, MSG_DONTWAIT);
    if (bytes == 0 || (bytes < 0 && errno != EMSGSIZE)) return false;
    Answer answer{};
    int process = -1;
    constexpr size_t kHead = offsetof(Request, environment);
    if (bytes < static_cast<ssize_t>(kHead) || request.environment_bytes > kMostEnvironment ||
        static_cast<size_t>(bytes) != kHead + request.environment_bytes ||
        !groups.carry_out(request, descriptors, answer, process)) {
        dprintf(2, "rgpu-spawner: a packet that is no request: the connection is closed\n");
        return false;
    }
    const std::span<const int> given(&process, process < 0 ? 0 : 1);
    return send_packet(peer, &answer, sizeof answer, given, MSG_DONTWAIT) == 0;
}

int run(const Settings &settings)
{
    sigset_t signals;
    sigemptyset(&signals);
    for (int number : {SIGCHLD, SIGTERM, SIGINT}) sigaddset(&signals, number);
    sigprocmask(SIG_SETMASK, &signals, nullptr);
    Fd peer(fcntl(kConnected, F_GETFD) < 0 ? -1 : kConnected);
    const Fd listener(kListener), told(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    Groups groups(settings, Fd(kCaches), Fd(kImages));
    while (peer || !settings.once || !groups.empty()) {
        // One rgpud at a time: the next one is taken when this one has gone.
        pollfd look[] = {{told.get(), POLLIN, 0}, {peer ? peer.get() : listener.get(), POLLIN, 0}};
        // What ends need not be a child.
        if (poll(look, 2, peer || groups.empty() ? -1 : 1000) < 0) continue;
        signalfd_siginfo info;
        while (read(told.get(), &info, sizeof info) == sizeof info)
            if (info.ssi_signo != SIGCHLD) return 0;
        if (look[1].revents && peer) {
            if (!serve(groups, peer.get())) peer.reset();
        } else if (look[1].revents) {
            peer.reset(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
            if (peer && !is_rgpud(peer, settings)) peer.reset();
        }
        if (!peer) groups.end_idle();
    }
    for (const char *directory : settings.cgroups) rmdir(directory);
    return 0;
}

}  // namespace
}  // namespace rgpu::spawner

int main()
{
    using namespace rgpu::spawner;
    static Settings settings;
    if (geteuid() != 0 || read(kSettings, &settings, sizeof settings) != sizeof settings ||
        fcntl(kImages, F_GETFD) < 0) {
        dprintf(2, "rgpu-spawner: root starts it, by rgpud --spawner: see rgpu-spawner(8)\n");
        return 2;
    }
    for (int fd = kListener; fd <= kConnected; ++fd) fcntl(fd, F_SETFD, FD_CLOEXEC);
    close(kSettings);
    umask(022);
    return run(settings);
}
