#include "serverd/rgpud/driver.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "net/rdma.h"
#include "util/defaults.h"
#include "util/log.h"

namespace rgpu::serverd {
namespace {

constexpr size_t kMaxInventory = 1024 * 1024;
constexpr const char *kNvidia = "libcuda.so.1";  // found as ld.so does

std::string host_dir(const RgpudConfig &config)
{
    return config.state_dir + "/softgpu";
}

std::string cache_dir(const RgpudConfig &config, uid_t uid)
{
    return config.state_dir + "/cache/" + std::to_string(uid);
}

Result<void> make_dir(const std::string &path, mode_t mode)
{
    if (mkdir(path.c_str(), mode) != 0 && errno != EEXIST)
        return error(ErrorKind::invalid,
                     "cannot make the directory %s: %s; see [rgpud] state_dir in rgpu.conf",
                     path.c_str(), strerror(errno));
    struct stat state;
    if (stat(path.c_str(), &state) != 0 || !S_ISDIR(state.st_mode))
        return error(ErrorKind::invalid, "%s is no directory; see [rgpud] state_dir in rgpu.conf",
                     path.c_str());
    // mkdir's mode went through the umask.
    if ((state.st_mode & 07777) != mode && state.st_uid == geteuid())
        (void)chmod(path.c_str(), mode);
    return {};
}

Result<void> make_dirs(const RgpudConfig &config)
{
    struct Dir {
        std::string path;
        mode_t mode;
    };
    // The software GPUs' UUIDs come from the name of their directory. Nothing is in it: what processes share is each lease's own.
    for (const Dir &dir : {Dir{config.state_dir, 0755}, Dir{host_dir(config), 0755},
                           Dir{config.state_dir + "/cache", 0755}, Dir{config.state_dir + "/images", 0755}})
        if (Result<void> made = make_dir(dir.path, dir.mode); !made)
            return made;
    return {};
}

std::string dev_dir(const RgpudConfig &config)
{
    return config.state_dir + "/dev";
}

bool can_own_dev(const RgpudConfig &config)
{
    if (!config.confine_workers || geteuid() != 0)
        return false;
    Result<void> tried = try_own_dev(dev_dir(config));
    if (!tried)
        log_warning("workers see the host's /dev: no mount namespace here (%s)", tried.error().text.c_str());
    return tried.has_value();
}

// Compiled kernels are code: each account has its own, and only it may write there.
void make_cache(const RgpudConfig &config, const Account &account)
{
    std::string path = cache_dir(config, account.uid);
    if (mkdir(path.c_str(), 0700) == 0 && account.change &&
        lchown(path.c_str(), account.uid, account.gid) != 0)
        log_warning("%s: %s; kernels of %s are compiled anew each time", path.c_str(),
                    strerror(errno), account.name.c_str());
}

Result<Driver> ask(const RgpudConfig &config, const Account &account, const std::string &path,
                   bool software, bool own_dev)
{
    Driver driver{path, software, own_dev, {}};
    Launch inventory;
    inventory.command = {config.worker, "--inventory"};
    inventory.environment = worker_environment(config, driver, account);
    inventory.account = account;
    inventory.dev = worker_dev(config, driver, {});
    Result<std::string> text =
        output_of(std::move(inventory), defaults::kInventoryTimeout, kMaxInventory);
    if (!text)
        return std::move(text).error().in("driver " + path);
    Result<pool::DriverInventory> decoded = pool::decode_driver_inventory(*text);
    if (!decoded)
        return std::move(decoded).error().in("driver " + path + ": what " + config.worker +
                                             " --inventory prints");
    if (decoded->gpus.empty())
        return error(ErrorKind::unavailable, "driver %s finds no GPU", path.c_str());
    driver.inventory = std::move(*decoded);
    return driver;
}

}  // namespace

std::string make_image_dir(const RgpudConfig &config, uid_t owner, const Account &account)
{
    const std::string path = config.state_dir + "/images/" + std::to_string(owner);
    struct stat state;
    const bool made = mkdir(path.c_str(), 0700) == 0 || errno == EEXIST;
    // An account may be new on this host: until then the owner's workers ran as another.
    if (made && lstat(path.c_str(), &state) == 0 && S_ISDIR(state.st_mode) &&
        (state.st_uid == account.uid || !account.change || lchown(path.c_str(), account.uid, account.gid) == 0))
        return path;
    log_warning("%s: %s; the images of uid %u's programs are sent anew each time", path.c_str(), strerror(errno), owner);
    return {};
}

Result<Driver> find_driver(const RgpudConfig &config)
{
    if (access(config.worker.c_str(), X_OK) != 0)
        return error(ErrorKind::invalid, "%s: %s; set [rgpud] worker in rgpu.conf",
                     config.worker.c_str(), strerror(errno));
    Result<void> made = make_dirs(config);
    if (!made)
        return std::move(made).error();
    Result<Account> account = account_named(config.worker_user);
    if (!account)
        return std::move(account).error().in("[rgpud] worker_user");

    const bool own_dev = can_own_dev(config);
    if (config.driver == "auto") {
        Result<Driver> nvidia = ask(config, *account, kNvidia, false, own_dev);
        if (nvidia)
            return nvidia;
        log_info("no NVIDIA GPU here (%s); using software GPUs", nvidia.error().text.c_str());
    } else if (config.driver != "softgpu") {
        return ask(config, *account, config.driver, false, own_dev);
    }
    if (access(config.softgpu_library.c_str(), R_OK) != 0)
        return error(ErrorKind::invalid, "%s: %s; set [rgpud] softgpu_library in rgpu.conf",
                     config.softgpu_library.c_str(), strerror(errno));
    return ask(config, *account, config.softgpu_library, true, own_dev);
}

bool offers_ucx(const RgpudConfig &config)
{
    return !config.encrypt && (config.transport == "ucx" || (config.transport == "auto" && net::has_rdma()));
}

OwnDev worker_dev(const RgpudConfig &config, const Driver &driver, const std::vector<std::string> &uuids)
{
    if (!driver.own_dev)
        return OwnDev();
    std::vector<std::string> names = device_names(driver.software, uuids);
    if (offers_ucx(config))
        names.push_back("infiniband");  // left out where there is none
    return OwnDev(dev_dir(config), names);
}

Environment worker_environment(const RgpudConfig &config, const Driver &driver,
                               const Account &account)
{
    make_cache(config, account);
    Environment environment;
    for (char **entry = environ; *entry; ++entry) {
        std::string text = *entry;
        size_t equals = text.find('=');
        if (text.starts_with("RGPU_SOFTGPU_") || text.starts_with("RGPU_UCX_") || text.starts_with("RGPU_LOG=") ||
            text.starts_with("RGPU_TRACE="))
            environment[text.substr(0, equals)] = text.substr(equals + 1);
    }
    environment["PATH"] = "/usr/bin:/bin";
    environment["LANG"] = "C.UTF-8";
    environment["HOME"] = "/nonexistent";
    environment["USER"] = account.name;
    environment["RGPU_DRIVER"] = driver.path;
    if (offers_ucx(config))
        environment["RGPU_WORKER_UCX"] = "1";
    environment["RGPU_WORKER_CONFINE"] = config.confine_workers ? "1" : "0";
    // They mean nothing to another driver.
    environment["RGPU_SOFTGPU_DEVICES"] = std::to_string(config.softgpu_devices);
    environment["RGPU_SOFTGPU_MEMORY"] = std::to_string(config.softgpu_memory);
    environment["RGPU_SOFTGPU_COMPUTE_CAPABILITY"] = config.softgpu_compute_capability;
    environment["RGPU_SOFTGPU_HOST"] = host_dir(config);
    environment["RGPU_SOFTGPU_DEVICES_FILE"] = "none";  // a lease's workers get the lease's
    environment["RGPU_SOFTGPU_CACHE"] = cache_dir(config, account.uid);
    return environment;
}

}  // namespace rgpu::serverd
