// SPDX-License-Identifier: Apache-2.0
#include "rgpud/workers/spawner_start.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "rgpud/host/account.h"
#include "rgpud/workers/cgroup.h"
#include "spawner/namespaces.h"
#include "util/child.h"
#include "util/log.h"
#include "util/sha256.h"

namespace rgpu::serverd {
namespace {

using spawner::Settings;

Error failed(const std::string &what)
{
    return error(ErrorKind::internal, "%s: %s", what.c_str(), strerror(errno));
}

template <size_t N> Result<void> put(char (&to)[N], const std::string &from)
{
    if (from.size() >= N)
        return error(ErrorKind::invalid, "%s: longer than %zu bytes", from.c_str(), N - 1);
    memcpy(to, from.c_str(), from.size() + 1);
    return {};
}

std::string plain(const std::string &path)
{
    std::string text = std::filesystem::path(path).lexically_normal();
    while (text.size() > 1 && text.ends_with('/')) text.pop_back();
    return text;
}

// Made as rgpud's user, in whose folder it may lie: root follows nothing that stands there.
Result<Fd> listen_at(const std::string &path, uid_t user)
{
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string fresh = path + ".new";
    if (fresh.size() >= sizeof address.sun_path)
        return error(ErrorKind::invalid, "%s: too long for a socket", path.c_str());
    memcpy(address.sun_path, fresh.c_str(), fresh.size() + 1);
    if (seteuid(user) != 0) return failed("seteuid");
    const mode_t mask = umask(0177);
    Fd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    unlink(fresh.c_str());
    // Under its name only once it listens.
    if (bind(listener.get(), reinterpret_cast<sockaddr *>(&address), sizeof address) != 0 ||
        listen(listener.get(), 4) != 0 || rename(fresh.c_str(), path.c_str()) != 0)
        listener.reset();
    const int failure = errno;
    umask(mask);
    if (seteuid(0) != 0) abort();
    errno = failure;
    if (!listener) return failed(path);
    return listener;
}

// A folder that only root changes, whatever rgpud's user put in its place.
Result<Fd> open_own(const std::string &path)
{
    (void)mkdir(path.c_str(), 0755);
    Fd dir(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!dir || fchown(dir.get(), 0, 0) != 0 || fchmod(dir.get(), 0755) != 0)
        return failed("the spawner's folder " + path);
    return dir;
}

Result<Fd> pipe_with(const Settings &settings)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return failed("pipe");
    Fd from(ends[0]), to(ends[1]);
    if (write(to.get(), &settings, sizeof settings) != sizeof settings) return failed("pipe");
    return from;
}

// Several rgpuds may be on one host, and each ends what it does not know.
Result<void> find_cgroups(Settings &settings, const std::string &state)
{
    const CgroupBase base = CgroupBase::find("rgpu-" + to_hex(sha256(state)).substr(0, 12));
    if (base.way() == CgroupBase::Way::none) log_warning("%s", base.told().c_str());
    // Workers end with their spawner: what one before this left is empty, or about to be.
    for (const std::string &name : base.names())
        if (Result<Cgroup> left = base.open(name)) {
            left->kill();
            (void)left->remove();
        }
    if (Result<void> given = base.give(settings.user); !given) return given;
    settings.v2 = base.way() == CgroupBase::Way::v2;
    for (size_t i = 0; i < base.directories().size(); ++i)
        if (Result<void> known = put(settings.cgroups[i], base.directories()[i]); !known)
            return known;
    return {};
}

// By making some.
bool has_namespaces(const Settings &settings)
{
    const pid_t pid = spawner::make_init(true);
    const Fd process(pid < 0 ? -1 : static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    const bool whole = process && spawner::furnish(process.get(), settings, {}, "", 0) &&
                       spawner::add_devices(process.get(), {"null"});
    if (!whole)
        log_warning("no namespaces here (%s): workers see the host's processes and devices",
                    strerror(errno));
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
    }
    return whole;
}

}  // namespace

std::string spawner_path(const RgpudConfig &config)
{
    return config.spawner.empty() ? config.state_dir + "/spawner.sock" : config.spawner;
}

// Beside the worker program; of a tree that was built, or is not where it was configured to be, in
// rgpud's neighbour folder.
std::vector<std::string> spawner_command(const RgpudConfig &config)
{
    namespace fs = std::filesystem;
    std::error_code failure;
    std::string program = std::string(defaults::kLibexecDir) + "/rgpu-spawner";
    const fs::path self = fs::read_symlink("/proc/self/exe", failure);
    for (const fs::path &place :
         {self.parent_path().parent_path() / "libexec", fs::path(config.worker).parent_path()})
        if (exists(place / "rgpu-spawner", failure)) program = place / "rgpu-spawner";
    return {program, config.state_dir};
}

Result<Settings> spawner_settings(const RgpudConfig &config, uid_t user)
{
    Settings settings{};
    Result<UidRange> pool = parse_uid_range(config.worker_uids);
    if (!pool) return std::move(pool).error();
    settings.user = user;
    settings.pool_low = pool->low;
    settings.pool_high = pool->high;
    settings.worker_user = settings.worker_group = spawner::kNone;
    settings.namespaces = config.confine_workers != "false";
    if (!config.worker_user.empty()) {
        Result<Account> account = account_named(config.worker_user);
        if (!account) return std::move(account).error().in("[rgpud] worker_user");
        settings.worker_user = account->uid;
        settings.worker_group = account->gid;
    }
    std::fill(std::begin(settings.groups), std::end(settings.groups), spawner::kNone);
    size_t count = 0;
    for (const char *name : kDeviceGroups)
        if (const group *known = getgrnam(name)) settings.groups[count++] = known->gr_gid;
    Result<void> named = put(settings.worker, plain(config.worker));
    if (named) named = put(settings.state, plain(config.state_dir));
    if (!named) return std::move(named).error();
    return settings;
}

std::string differences(const Settings &running, const Settings &wanted)
{
    std::string all;
    const auto look = [&](bool same, const char *key) {
        if (!same) all += (all.empty() ? "" : ", ") + std::string(key);
    };
    look(strncmp(running.worker, wanted.worker, sizeof running.worker) == 0, "worker");
    look(strncmp(running.state, wanted.state, sizeof running.state) == 0, "state_dir");
    look(running.pool_low == wanted.pool_low && running.pool_high == wanted.pool_high,
         "worker_uids");
    look(running.worker_user == wanted.worker_user && running.worker_group == wanted.worker_group,
         "worker_user");
    // Without them where they are wanted: the host has none.
    look(!running.namespaces || wanted.namespaces, "confine_workers");
    return all;
}

Result<std::vector<Fd>> prepare_spawner(const RgpudConfig &config, uid_t user, bool once)
{
    Result<Settings> settings = spawner_settings(config, user);
    if (!settings) return std::move(settings).error();
    settings->once = once;
    if (Result<void> found = find_cgroups(*settings, config.state_dir); !found)
        return std::move(found).error();
    settings->namespaces = settings->namespaces && has_namespaces(*settings);
    const std::string state = settings->state;
    Result<Fd> given[] = {pipe_with(*settings), listen_at(spawner_path(config), user),
                          open_own(state + "/cache"), open_own(state + "/images"),
                          open_own(state + "/own")};
    std::vector<Fd> all;
    for (Result<Fd> &fd : given) {
        if (!fd) return std::move(fd).error();
        all.push_back(std::move(*fd));
    }
    all.pop_back();  // known by its name
    return all;
}

Error become_spawner(const RgpudConfig &config, uid_t user)
{
    Result<std::vector<Fd>> given = prepare_spawner(config, user, false);
    if (!given) return std::move(given).error();
    std::vector<std::string> command = spawner_command(config);
    char *const words[] = {command[0].data(), command[1].data(), nullptr};
    char *const environment[] = {nullptr};
    const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
    std::vector<int> places = {null.get(), 1, 2};
    for (const Fd &fd : *given) places.push_back(fd.get());
    default_signals();
    setsid();
    if (!null || !place_descriptors(places)) return failed("descriptors");
    execve(words[0], words, environment);
    return failed(command[0]);
}

}  // namespace rgpu::serverd
