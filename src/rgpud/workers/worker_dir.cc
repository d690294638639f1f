// SPDX-License-Identifier: Apache-2.0
#include "rgpud/workers/worker_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "pool/messages/lease_json.h"
#include "util/log.h"

namespace rgpu::serverd {
namespace {

constexpr const char *kLease = ".lease", *kSocket = ".socket", *kProcess = ".process",
                     *kClient = ".client";

Fd unix_socket() { return Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

sockaddr_un address_of(const std::string &path)
{
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    return address;
}

Error failed(const std::string &what)
{
    return error(errno == ENOSPC || errno == EMFILE || errno == ENFILE ? ErrorKind::exhausted
                                                                       : ErrorKind::internal,
                 "%s: %s", what.c_str(), strerror(errno));
}

// The 22nd word of /proc/PID/stat: no other process of that pid has it.
std::string start_of(pid_t pid)
{
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    const size_t name_end = text.rfind(')');
    std::istringstream words(name_end == text.npos ? "" : text.substr(name_end + 1));
    std::string word;
    for (int i = 3; i <= 22; ++i) words >> word;
    return words ? word : "";
}

void take_process(WorkerDir::Found &found, Fd file)
{
    char text[64] = {};
    if (!file || read(file.get(), text, sizeof text - 1) <= 0) return;
    std::istringstream words(text);
    pid_t pid = 0;
    std::string start;
    words >> pid >> start;
    if (!words || pid <= 0) return;
    Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    // Read after the descriptor was made: so it is this worker's, not that of a later process of
    // the same pid.
    if (process && start_of(pid) == start) {
        found.pid = pid;
        found.process = std::move(process);
    }
}

}  // namespace

Result<WorkerDir> WorkerDir::open(const std::string &path)
{
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return failed(path);
    Fd dir(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!dir || fchmod(dir.get(), 0700) != 0) return failed(path);
    return WorkerDir(std::move(dir), path);
}

// A socket's path may have 107 bytes: through the directory's descriptor it is short wherever that
// is.
std::string WorkerDir::socket_path(const std::string &name) const
{
    return "/proc/self/fd/" + std::to_string(dir_.get()) + "/" + name + kSocket;
}

Result<WorkerDir::Made> WorkerDir::make(const pool::Lease &lease)
{
    Made made;
    made.name = pool::random_id().substr(0, 16);
    pool::Lease shown = lease;
    shown.secret.clear();
    std::string text = pool::encode(pool::Leases{0, {shown}}), path = made.name + kLease;
    Fd words(openat(dir_.get(), path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    made.control = unix_socket();
    sockaddr_un address = address_of(socket_path(made.name));
    if (!words || !made.control ||
        write(words.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        bind(made.control.get(), reinterpret_cast<sockaddr *>(&address), sizeof address) != 0) {
        Error error = failed(path_ + "/" + made.name);
        remove(made.name);
        return error;
    }
    return made;
}

void WorkerDir::note_process(const std::string &name, pid_t pid) const
{
    const std::string text = std::to_string(pid) + " " + start_of(pid) + "\n";
    Fd file(openat(dir_.get(), (name + kProcess).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                   0600));
    if (!file || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
        log_warning("%s/%s%s: %s; the next rgpud will not know this worker", path_.c_str(),
                    name.c_str(), kProcess, strerror(errno));
}

void WorkerDir::note_client(const std::string &name) const
{
    Fd file(openat(dir_.get(), (name + kClient).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    if (!file)
        log_warning("%s/%s%s: %s; if the host goes down, nobody will know that this worker was in "
                    "use",
                    path_.c_str(), name.c_str(), kClient, strerror(errno));
}

void WorkerDir::remove(const std::string &name) const
{
    for (const char *suffix : {kClient, kProcess, kSocket, kLease})
        unlinkat(dir_.get(), (name + suffix).c_str(), 0);
}

std::vector<WorkerDir::Found> WorkerDir::find()
{
    std::vector<Found> found;
    std::vector<std::string> names;
    DIR *dir = fdopendir(::openat(dir_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    while (dirent *entry = dir ? readdir(dir) : nullptr)
        if (std::string name = entry->d_name; name.ends_with(kLease))
            names.push_back(name.substr(0, name.size() - strlen(kLease)));
    if (dir) closedir(dir);
    for (const std::string &name : names) {
        Fd file(openat(dir_.get(), (name + kLease).c_str(), O_RDONLY | O_CLOEXEC));
        std::string text(64 * 1024, '\0');
        ssize_t n = file ? read(file.get(), text.data(), text.size()) : 0;
        text.resize(n > 0 ? static_cast<size_t>(n) : 0);
        Result<pool::Leases> leases = pool::decode_leases(text);
        // Without its words, which a full disk may have kept away, it still is somebody's.
        pool::Lease lease = leases && leases->leases.size() == 1 ? std::move(leases->leases[0])
                                                                 : pool::Lease{};
        const bool had_client = faccessat(dir_.get(), (name + kClient).c_str(), F_OK, 0) == 0;
        found.push_back({name, std::move(lease), 0, {}, had_client});
        take_process(found.back(),
                     Fd(openat(dir_.get(), (name + kProcess).c_str(), O_RDONLY | O_CLOEXEC)));
    }
    return found;
}

bool WorkerDir::is_starting(const std::string &name) const
{
    const Fd socket = unix_socket();
    const sockaddr_un address = address_of(socket_path(name));
    return connect(socket.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) !=
               0 &&
           errno == ECONNREFUSED;
}

Result<Fd> WorkerDir::reach(const std::string &name, pid_t pid) const
{
    Fd socket = unix_socket();
    sockaddr_un address = address_of(socket_path(name));
    ucred peer{};
    socklen_t size = sizeof peer;
    if (!socket ||
        connect(socket.get(), reinterpret_cast<sockaddr *>(&address), sizeof address) != 0 ||
        getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return error(ErrorKind::unavailable, "its control socket: %s", strerror(errno));
    if (peer.pid != pid)
        return error(ErrorKind::unavailable, "process %d has its control socket", peer.pid);
    return socket;
}

}  // namespace rgpu::serverd
