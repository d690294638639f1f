// rgpu-spawner: the part of rgpud that is root. It starts workers for an rgpud that is not.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "spawner/groups.h"
#include "spawner/protocol.h"
#include "spawner/settings.h"

namespace rgpu::spawner {
namespace {

union Request {
    What what;
    Plain plain;
    Group group;
    Start start;
};

// Made as rgpud's user, in whose folder it may lie: root follows nothing that stands there.
Fd listen_at(const Settings &settings)
{
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string fresh = settings.socket + ".new";
    if (fresh.size() >= sizeof address.sun_path) return Fd();
    memcpy(address.sun_path, fresh.c_str(), fresh.size() + 1);
    if (seteuid(settings.user) != 0) return Fd();
    const mode_t mask = umask(0177);
    Fd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    unlink(fresh.c_str());
    // Under its name only once it listens.
    if (bind(listener.get(), reinterpret_cast<sockaddr *>(&address), sizeof address) != 0 ||
        listen(listener.get(), 4) != 0 || rename(fresh.c_str(), settings.socket.c_str()) != 0)
        listener.reset();
    const int failure = errno;
    umask(mask);
    if (seteuid(0) != 0) return Fd();
    errno = failure;
    return listener;
}

bool is_rgpud(const Fd &peer, const Settings &settings)
{
    ucred who{};
    socklen_t size = sizeof who;
    return getsockopt(peer.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
           who.uid == settings.user;
}

// One packet and its descriptors; false: the connection is over, or said what it may not.
bool receive(int from, Request &request, size_t &bytes, std::vector<Fd> &descriptors)
{
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostDescriptors)];
    iovec vector{&request, sizeof request};
    msghdr header{};
    header.msg_iov = &vector;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    const ssize_t n = recvmsg(from, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    for (cmsghdr *c = n >= 0 ? CMSG_FIRSTHDR(&header) : nullptr; c; c = CMSG_NXTHDR(&header, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
            for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
                int fd;
                memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
                descriptors.emplace_back(fd);
            }
    bytes = n > 0 ? static_cast<size_t>(n) : 0;
    return bytes >= sizeof(What) && !(header.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
}

bool send(int to, const Answer &answer, int process)
{
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    iovec vector{const_cast<Answer *>(&answer), sizeof answer};
    msghdr header{};
    header.msg_iov = &vector;
    header.msg_iovlen = 1;
    if (process >= 0) {
        header.msg_control = control;
        header.msg_controllen = sizeof control;
        cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof process);
        memcpy(CMSG_DATA(rights), &process, sizeof process);
    }
    return sendmsg(to, &header, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof answer;
}

// False: the packet is none of the protocol.
bool carry_out(Groups &groups, const Settings &settings, const Request &request, size_t bytes,
               const std::vector<Fd> &descriptors, Answer &answer, int &process)
{
    constexpr size_t kStartHead = offsetof(Start, environment);
    const bool plain = bytes == sizeof(Plain) && descriptors.empty();
    switch (request.what) {
    case What::hello:
        answer.isolated = groups.isolated();
        answer.settings = settings.hash;
        return plain;
    case What::group:
        if (bytes != sizeof(Group) || !descriptors.empty()) return false;
        answer.error = groups.make(request.group);
        return true;
    case What::start:
        if (bytes < kStartHead || request.start.environment_bytes > kMostEnvironment ||
            bytes != kStartHead + request.start.environment_bytes)
            return false;
        answer.error = groups.start(request.start, descriptors, answer.pid, process);
        return true;
    case What::signal: return plain && (answer.error = groups.signal(request.plain), true);
    case What::reap:
        return plain && (answer.error = groups.reap(request.plain, answer.status), true);
    case What::end:
        return plain &&
               (answer.error = groups.end(std::string(request.plain.key, kKeyBytes)), true);
    case What::list:
        return plain && (answer.error = groups.next(request.plain, answer, process), true);
    }
    return false;
}

// False: the connection is to be closed.
bool serve(Groups &groups, const Settings &settings, int peer)
{
    static Request request;
    std::vector<Fd> descriptors;
    size_t bytes = 0;
    if (!receive(peer, request, bytes, descriptors)) return false;
    Answer answer{};
    int process = -1;
    if (!carry_out(groups, settings, request, bytes, descriptors, answer, process)) {
        dprintf(2, "rgpu-spawner: %zu bytes that are no request: the connection is closed\n",
                bytes);
        return false;
    }
    return send(peer, answer, process);
}

int run(const Settings &settings)
{
    sigset_t signals;
    sigemptyset(&signals);
    for (int number : {SIGCHLD, SIGTERM, SIGINT}) sigaddset(&signals, number);
    sigprocmask(SIG_SETMASK, &signals, nullptr);
    Fd told(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    Groups groups;
    if (Result<void> opened = groups.open(settings); !opened) {
        dprintf(2, "rgpu-spawner: %s\n", opened.error().text.c_str());
        return 1;
    }
    Fd listener = listen_at(settings), peer(settings.connected);
    if (!listener || !told) {
        dprintf(2, "rgpu-spawner: %s: %s\n", settings.socket.c_str(), strerror(errno));
        return 1;
    }
    while (peer || !settings.once || !groups.empty()) {
        // One rgpud at a time: the next one is taken when this one has gone.
        pollfd look[] = {{told.get(), POLLIN, 0}, {peer ? peer.get() : listener.get(), POLLIN, 0}};
        if (poll(look, 2, -1) < 0) continue;
        signalfd_siginfo info;
        while (read(told.get(), &info, sizeof info) == sizeof info)
            if (info.ssi_signo != SIGCHLD) return 0;
        groups.look();
        if (look[1].revents && peer) {
            if (!serve(groups, settings, peer.get())) peer.reset();
        } else if (look[1].revents) {
            peer.reset(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
            if (peer && !is_rgpud(peer, settings)) peer.reset();
        }
        if (!peer) groups.end_idle();
    }
    groups.close();
    return 0;
}

}  // namespace
}  // namespace rgpu::spawner

int main(int argc, char **argv)
{
    using namespace rgpu::spawner;
    Settings settings;
    if (std::optional<int> status = read_settings(argc, argv, settings)) return *status;
    if (geteuid() != 0) {
        dprintf(2, "rgpu-spawner: only root can start workers as other users\n");
        return 1;
    }
    setsid();
    umask(022);
    if (settings.connected >= 0) fcntl(settings.connected, F_SETFD, FD_CLOEXEC);
    return run(settings);
}
