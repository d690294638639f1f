// SPDX-License-Identifier: Apache-2.0
#include "rgpud/host/driver.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "net/ucx/rdma.h"
#include "rgpud/host/device_files.h"
#include "util/defaults.h"
#include "util/log.h"
#include "util/nvidia_host.h"

namespace rgpu::serverd {
namespace {

constexpr size_t kMaxInventory = 1024 * 1024;
constexpr const char *kNvidia = "libcuda.so.1";  // found as ld.so does

std::string host_dir(const RgpudConfig &config) { return config.state_dir + "/softgpu"; }

// Compiled kernels are code: each account has its own, and only it may write there.
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
    // The software GPUs' UUIDs come from the name of their directory. Nothing is in it: what
    // processes share is each lease's own.
    for (const Dir &dir :
         {Dir{config.state_dir, 0755}, Dir{host_dir(config), 0755},
          Dir{config.state_dir + "/cache", 0755}, Dir{config.state_dir + "/images", 0755}})
        if (Result<void> made = make_dir(dir.path, dir.mode); !made) return made;
    return {};
}

// Of a tenant without an account: a file system that only his workers see, and that ends with them.
std::string own_dir(const RgpudConfig &config) { return config.state_dir + "/own"; }

// As rgpud's own user: what is asked comes from no tenant.
Result<Driver> ask(const RgpudConfig &config, const std::string &path, bool software)
{
    Driver driver{path, software, {}};
    Launch inventory;
    inventory.command = {config.worker, "--inventory"};
    inventory.environment = worker_environment(config, driver, own_account());
    inventory.environment.merge(encode(worker_start(config, driver)));
    Result<std::string> text =
        output_of(std::move(inventory), defaults::kInventoryTimeout, kMaxInventory);
    if (!text) return std::move(text).error().in("driver " + path);
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
    if (account.pool) return own_dir(config) + "/images";
    std::string path = config.state_dir + "/images/" + std::to_string(owner);
    struct stat state;
    const bool made = account.uid != geteuid() || mkdir(path.c_str(), 0700) == 0 || errno == EEXIST;
    if (made && lstat(path.c_str(), &state) == 0 && S_ISDIR(state.st_mode) &&
        state.st_uid == account.uid)
        return path;
    log_warning(
        "%s is no folder of user %s: the images of uid %u's programs are sent anew each time",
        path.c_str(), account.name.c_str(), owner);
    return {};
}

namespace {

// Users would get a processor in the place of a GPU, and nobody would be told.
Error without_nvidia(const Error &failure, const std::string &sign)
{
    return error(ErrorKind::unavailable,
                 "NVIDIA's driver gives no GPU: %s%s; mend the driver (nvidia-smi and dmesg say "
                 "more), or ask for software GPUs with driver = \"softgpu\" below [rgpud]",
                 failure.text.c_str(), sign.empty() ? "" : (", though " + sign).c_str());
}

}  // namespace

Result<Driver> find_driver(const RgpudConfig &config)
{
    if (access(config.worker.c_str(), X_OK) != 0)
        return error(ErrorKind::invalid, "%s: %s; set [rgpud] worker in rgpu.conf",
                     config.worker.c_str(), strerror(errno));
    if (config.nccl != "off" && config.nccl != "auto" && !config.nccl.starts_with('/'))
        return error(
            ErrorKind::invalid,
            "nccl = \"%s\" below [rgpud]: off, auto or the path of a libnccl.so.2 is wanted",
            config.nccl.c_str());
    Result<void> made = make_dirs(config);
    if (!made) return std::move(made).error();
    if (config.driver == "nvidia" || config.driver == "auto") {
        Result<Driver> nvidia = ask(config, kNvidia, false);
        if (nvidia) return nvidia;
        const std::string sign = nvidia_sign();
        if (config.driver == "nvidia" || !sign.empty()) return without_nvidia(nvidia.error(), sign);
        log_info("no NVIDIA GPU here (%s); using software GPUs", nvidia.error().text.c_str());
    } else if (config.driver.find('/') != config.driver.npos) {
        return ask(config, config.driver, false);
    } else if (config.driver != "softgpu") {
        return error(ErrorKind::invalid,
                     "driver = \"%s\" below [rgpud]: nvidia, softgpu, auto or the path of a "
                     "libcuda.so.1 is wanted",
                     config.driver.c_str());
    }
    if (access(config.softgpu_library.c_str(), R_OK) != 0)
        return error(ErrorKind::invalid, "%s: %s; set [rgpud] softgpu_library in rgpu.conf",
                     config.softgpu_library.c_str(), strerror(errno));
    return ask(config, config.softgpu_library, true);
}

bool offers_ucx(const RgpudConfig &config)
{
    return config.encrypt != "true" &&
           (config.transport == "ucx" || (config.transport == "auto" && net::has_rdma()));
}

std::vector<std::string> worker_devices(const RgpudConfig &config, const Driver &driver,
                                        const std::vector<std::string> &uuids)
{
    std::vector<std::string> names = device_names(driver.software, uuids);
    if (offers_ucx(config)) names.push_back("infiniband");  // left out where there is none
    return names;
}

Environment worker_environment(const RgpudConfig &config, const Driver &driver,
                               const Account &account)
{
    if (account.uid == geteuid()) (void)mkdir(cache_dir(config, account.uid).c_str(), 0700);
    Environment environment;
    for (char **entry = environ; *entry; ++entry) {
        std::string text = *entry;
        size_t equals = text.find('=');
        if (text.starts_with("RGPU_SOFTGPU_") || text.starts_with("RGPU_UCX_") ||
            text.starts_with("RGPU_LOG=") || text.starts_with("RGPU_TRACE="))
            environment[text.substr(0, equals)] = text.substr(equals + 1);
    }
    environment["PATH"] = "/usr/bin:/bin";
    environment["LANG"] = "C.UTF-8";
    environment["HOME"] = "/nonexistent";
    environment["USER"] = account.name;
    environment["RGPU_DRIVER"] = driver.path;
    // They mean nothing to another driver.
    environment["RGPU_SOFTGPU_DEVICES"] = std::to_string(config.softgpu_devices);
    environment["RGPU_SOFTGPU_MEMORY"] = std::to_string(config.softgpu_memory);
    environment["RGPU_SOFTGPU_COMPUTE_CAPABILITY"] = config.softgpu_compute_capability;
    environment["RGPU_SOFTGPU_HOST"] = host_dir(config);
    environment["RGPU_SOFTGPU_DEVICES_FILE"] = "none";  // a lease's workers get the lease's
    environment["RGPU_SOFTGPU_CACHE"] = account.pool ? own_dir(config) + "/cache"
                                                     : cache_dir(config, account.uid);
    return environment;
}

WorkerStart worker_start(const RgpudConfig &config, const Driver &driver)
{
    WorkerStart start;
    start.server = config.name;
    start.takes_ucx = offers_ucx(config);
    if (config.nccl != "off")
        start.nccl = config.nccl, start.nccl_interface = config.nccl_interface;
    // What software GPUs need is known (worker/limits/confine.h).
    start.confinement = config.confine_workers == "log"     ? Confinement::log
                        : config.confine_workers == "false" ? Confinement::none
                        : driver.software                   ? Confinement::software
                                                            : Confinement::by_name;
    // Workers of one job open each other's descriptors (CUDA IPC).
    start.dumpable = driver.software;
    return start;
}

}  // namespace rgpu::serverd
