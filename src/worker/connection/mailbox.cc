// SPDX-License-Identifier: Apache-2.0
#include "worker/connection/mailbox.h"

#include <dirent.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "util/packet.h"

namespace rgpu::worker {

namespace {

constexpr char kFolder[] = "/dev/shm/", kName[] = "rgpu-mailbox-";
constexpr int kMostWait = 1000;  // milliseconds

struct Question {
    char magic[8];
    wire::ShareKey key;
};
constexpr char kMagic[8] = {'r', 'g', 'p', 'u', 'k', 'e', 'y', '1'};

std::string path_of(uint64_t number)
{
    char text[64];
    snprintf(text, sizeof text, "%s%s%016" PRIx64, kFolder, kName, number);
    return text;
}

sockaddr_un address_of(const std::string &path)
{
    sockaddr_un a{};
    a.sun_family = AF_UNIX;
    strncpy(a.sun_path, path.c_str(), sizeof a.sun_path - 1);
    return a;
}

Fd new_socket() { return Fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)); }

// Whether somebody reads there, as far as this user may know.
bool is_dead(const std::string &path)
{
    const Fd probe = new_socket();
    const sockaddr_un a = address_of(path);
    return probe && connect(probe.get(), reinterpret_cast<const sockaddr *>(&a), sizeof a) != 0 &&
           errno == ECONNREFUSED;
}

// A worker that was killed has left its own behind.
void sweep()
{
    DIR *folder = opendir(kFolder);
    if (!folder) return;
    while (const dirent *entry = readdir(folder)) {
        if (strncmp(entry->d_name, kName, sizeof kName - 1)) continue;
        const std::string path = std::string(kFolder) + entry->d_name;
        if (is_dead(path)) unlink(path.c_str());
    }
    closedir(folder);
}

}  // namespace

Result<wire::ShareKey> new_share_key()
{
    wire::ShareKey key;
    if (getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size()))
        return error(ErrorKind::internal, "no random bytes");
    return key;
}

Mailbox &Mailbox::here()
{
    static auto *one = new Mailbox;
    return *one;
}

void Mailbox::open()
{
    sweep();
    Fd fresh = new_socket();
    if (!fresh || getrandom(&number_, sizeof number_, 0) != sizeof number_) return;
    path_ = path_of(number_);
    const sockaddr_un a = address_of(path_);
    // umask(2) is the process's, and no other thread is there yet: nobody else may write to it from
    // the beginning.
    const mode_t before = umask(0177);
    const bool bound = bind(fresh.get(), reinterpret_cast<const sockaddr *>(&a), sizeof a) == 0;
    umask(before);
    if (bound) socket_ = std::move(fresh);
}

void Mailbox::close()
{
    if (is_open()) unlink(path_.c_str());
}

Result<void> Mailbox::offer(const wire::ShareKey &key, Fd fd, uint64_t bytes)
{
    std::lock_guard lock(mutex_);
    if (!serves_) {
        try {
            std::thread(&Mailbox::serve, this).detach();
        } catch (const std::system_error &failure) {
            return error(ErrorKind::exhausted, "no thread for the mailbox: %s", failure.what());
        }
        serves_ = true;
    }
    offered_[key] = {std::move(fd), bytes};
    return {};
}

void Mailbox::withdraw(const wire::ShareKey &key)
{
    std::lock_guard lock(mutex_);
    offered_.erase(key);
}

void Mailbox::serve()
{
    for (;;) {
        Question question{};
        std::vector<Fd> given;
        const ssize_t n = receive_packet(socket_.get(), &question, sizeof question, given, 1);
        if (n < 0 && errno != EMSGSIZE) usleep(100'000);  // out of descriptors: no busy loop
        if (n == sizeof question && given.size() == 1 &&
            !memcmp(question.magic, kMagic, sizeof kMagic))
            answer(given.front().get(), question.key);
    }
}

// Whatever `to` is, it never makes this wait.
void Mailbox::answer(int to, const wire::ShareKey &key)
{
    std::lock_guard lock(mutex_);
    const auto it = offered_.find(key);
    if (it == offered_.end()) return;
    const int fd = it->second.fd.get();
    send_packet(to, &it->second.bytes, sizeof it->second.bytes, {&fd, 1}, MSG_DONTWAIT);
}

Result<Received> ask_mailbox(uint64_t number, const wire::ShareKey &key)
{
    const Fd out = new_socket();
    int ends[2];
    if (!out || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return error(ErrorKind::exhausted, "no socket: %s", strerror(errno));
    Fd mine(ends[0]), theirs(ends[1]);
    const sockaddr_un a = address_of(path_of(number));
    Question question{};
    memcpy(question.magic, kMagic, sizeof kMagic);
    question.key = key;
    const int descriptor = theirs.get();
    constexpr timeval kMost{kMostWait / 1000, 0};  // behind others' questions
    setsockopt(out.get(), SOL_SOCKET, SO_SNDTIMEO, &kMost, sizeof kMost);
    if (const int failure =
            send_packet(out.get(), &question, sizeof question, {&descriptor, 1}, 0, &a))
        return error(ErrorKind::invalid, "no worker of this lease has that memory: %s",
                     strerror(failure));
    theirs.reset();  // where nobody answers, the end comes at once
    pollfd look{mine.get(), POLLIN, 0};
    int ready;
    while ((ready = poll(&look, 1, kMostWait)) < 0 && errno == EINTR) {}
    if (ready <= 0) return error(ErrorKind::unavailable, "the worker that has it does not answer");
    Received received;
    std::vector<Fd> given;
    const ssize_t n =
        receive_packet(mine.get(), &received.bytes, sizeof received.bytes, given, 1, MSG_DONTWAIT);
    if (n != sizeof received.bytes || given.size() != 1)
        return error(ErrorKind::invalid, "no worker of this lease has that memory");
    received.fd = std::move(given.front());
    return received;
}

}  // namespace rgpu::worker
