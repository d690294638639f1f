#include "serverd/rgpud/worker_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "pool/message_json.h"
#include "util/log.h"

namespace rgpu::serverd {
namespace {

constexpr const char *kLease = ".lease", *kSocket = ".socket";

Fd unix_socket()
{
    return Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

sockaddr_un address_of(const std::string &path)
{
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    return address;
}

Error failed(const std::string &what)
{
    return error(errno == ENOSPC || errno == EMFILE || errno == ENFILE ? ErrorKind::exhausted : ErrorKind::internal,
                 "%s: %s", what.c_str(), strerror(errno));
}

}  // namespace

Result<WorkerDir> WorkerDir::open(const std::string &path)
{
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
        return failed(path);
    Fd dir(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!dir || fchmod(dir.get(), 0700) != 0)
        return failed(path);
    return WorkerDir(std::move(dir), path);
}

// A socket's path may have 107 bytes: through the directory's descriptor it is short wherever that is.
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
    // The worker gets a descriptor that cannot write.
    made.lock = Fd(openat(dir_.get(), path.c_str(), O_RDONLY | O_CLOEXEC));
    made.control = unix_socket();
    sockaddr_un address = address_of(socket_path(made.name));
    // Locked before it says anything: what is not locked is dead.
    if (!words || !made.lock || !made.control || flock(made.lock.get(), LOCK_EX | LOCK_NB) != 0 ||
        write(words.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        bind(made.control.get(), reinterpret_cast<sockaddr *>(&address), sizeof address) != 0) {
        Error error = failed(path_ + "/" + made.name);
        remove(made.name);
        return error;
    }
    return made;
}

bool WorkerDir::is_alive(const std::string &name) const
{
    Fd file(openat(dir_.get(), (name + kLease).c_str(), O_RDONLY | O_CLOEXEC));
    return file && flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

void WorkerDir::remove(const std::string &name) const
{
    for (const char *suffix : {kSocket, kLease})
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
    if (dir)
        closedir(dir);
    for (const std::string &name : names) {
        if (!is_alive(name)) {
            remove(name);
            continue;
        }
        Fd file(openat(dir_.get(), (name + kLease).c_str(), O_RDONLY | O_CLOEXEC));
        std::string text(64 * 1024, '\0');
        ssize_t n = file ? read(file.get(), text.data(), text.size()) : 0;
        text.resize(n > 0 ? static_cast<size_t>(n) : 0);
        Result<pool::Leases> leases = pool::decode_leases(text);
        // Without its words, which a full disk may have kept away, it still is somebody's.
        pool::Lease lease = leases && leases->leases.size() == 1 ? std::move(leases->leases[0]) : pool::Lease{};
        found.push_back({name, std::move(lease)});
    }
    return found;
}

Result<WorkerDir::Reached> WorkerDir::reach(const std::string &name) const
{
    Fd socket = unix_socket();
    sockaddr_un address = address_of(socket_path(name));
    ucred peer{};
    socklen_t size = sizeof peer;
    if (!socket || connect(socket.get(), reinterpret_cast<sockaddr *>(&address), sizeof address) != 0 ||
        getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return error(ErrorKind::unavailable, "its control socket: %s", strerror(errno));
    Reached reached{peer.pid, Fd(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0))), std::move(socket)};
    // Alive after the descriptor was made: so it is this worker's, not that of a later process of the same pid.
    if (!reached.process || !is_alive(name))
        return error(ErrorKind::unavailable, "it has ended");
    return reached;
}

}  // namespace rgpu::serverd
