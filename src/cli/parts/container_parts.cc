// SPDX-License-Identifier: Apache-2.0
#include "cli/parts/container_parts.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cli/parts/container_image.h"
#include "slurm/terms/paths.h"
#include "view/compilers.h"
#include "view/gpus.h"
#include "view/nccl.h"
#include "view/programs.h"
#include "view/show.h"

namespace rgpu::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *kLibraries[] = {"libcuda.so.1", "libnvidia-ml.so.1"};
constexpr const char *kVisible = "CUDA_VISIBLE_DEVICES";
constexpr const char *kTmpfsOptions[] = {"nosuid", "nodev", "mode=0755", "size=64k"};
constexpr const char *kBindOptions[] = {"bind", "ro", "nosuid", "nodev"};
constexpr const char *kDeviceOptions[] = {"bind", "nosuid", "noexec"};

bool is_directory(const std::string &path)
{
    struct stat status;
    return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

// Whether a mount point can be made at this path of the container, or is there.
bool can_have(const Container &container, const std::string &path)
{
    for (const std::string &tmpfs : container.tmpfs)
        if (path.starts_with(tmpfs + "/")) return true;
    auto place = resolve_in(container.rootfs, path);
    if (!place) return false;
    std::string at = container.rootfs + *place;
    if (access(at.c_str(), F_OK) == 0) return true;
    while (access(at.c_str(), F_OK) != 0 && at.size() > container.rootfs.size())
        at.resize(at.rfind('/'));
    return is_directory(at) && access(at.c_str(), W_OK) == 0;
}

// Where the job is given our libnccl.so.2 (view/nccl.h), its path is another one in there.
void add_nccl(ContainerParts &parts, const Container &container, const std::string &interposer_dir)
{
    const std::string outside = interposer_dir + view::kNcclLibrary,
                      inside = parts.directory + view::kNcclLibrary;
    std::string preload = value_of(container.environment, "LD_PRELOAD");
    const size_t at = preload.find(outside);
    if (at == preload.npos) return;
    parts.mounts.push_back({outside, inside});
    parts.environment.emplace_back("LD_PRELOAD", preload.replace(at, outside.size(), inside));
}

// Libraries beside the interposer that it opens by itself (the client bundle has an OpenSSL there).
std::vector<BindMount> neighbour_mounts(const std::string &interposer_dir,
                                        const std::string &directory)
{
    std::vector<BindMount> mounts;
    DIR *own = opendir((interposer_dir + "/openssl").c_str());
    while (dirent *entry = own ? readdir(own) : nullptr)
        if (entry->d_name[0] != '.')
            mounts.push_back({interposer_dir + "/openssl/" + entry->d_name,
                              directory + "/openssl/" + entry->d_name});
    if (own) closedir(own);
    return mounts;
}

// As view/show.h has them.
std::vector<BindMount> devices_for(size_t gpus)
{
    std::vector<BindMount> devices;
    for (const std::string &name : view::device_names(gpus))
        devices.push_back({"/dev/null", "/dev/" + name});
    return devices;
}

// nvidia-smi, which is last in the container's PATH.
void add_programs(ContainerParts &parts, const Container &container,
                  const std::string &interposer_dir)
{
    const std::string programs = view::programs_dir(interposer_dir);
    if (programs.empty()) return;
    parts.mounts.push_back({programs + "/nvidia-smi", parts.directory + "/nvidia-smi"});
    parts.environment.emplace_back(
        "PATH", view::search_path(value_of(container.environment, "PATH"), parts.directory));
}

// The stand-in for ptxas, where the GPUs are software GPUs.
void add_compilers(ContainerParts &parts, const Container &container,
                   const std::vector<view::Gpu> &gpus, const std::string &interposer_dir)
{
    const std::string outside = view::toolkit_dir(interposer_dir),
                      inside = parts.directory + "/ptx";
    if (outside.empty()) return;
    const auto variables = view::compiler_variables(gpus, inside, [&](const char *name) {
        return view::without_toolkit(value_of(container.environment, name), outside);
    });
    if (variables.empty()) return;
    parts.mounts.push_back({view::ptxas_in(outside), view::ptxas_in(inside)});
    parts.environment.insert(parts.environment.end(), variables.begin(), variables.end());
}

Environment environment_in(const Json &config)
{
    Environment environment;
    if (auto process = config.find("process"); process != config.end() && process->is_object())
        if (auto list = process->find("env"); list != process->end() && list->is_array())
            for (const Json &entry : *list)
                if (entry.is_string()) environment.push_back(entry.get<std::string>());
    return environment;
}

std::vector<std::string> tmpfs_in(const Json &config)
{
    std::vector<std::string> found;
    if (auto mounts = config.find("mounts"); mounts != config.end() && mounts->is_array())
        for (const Json &mount : *mounts)
            if (mount.is_object() && mount.value("type", "") == "tmpfs")
                found.push_back(mount.value("destination", ""));
    return found;
}

void add_mount(Json &config, const char *type, const std::string &source,
               const std::string &destination, const Json &options)
{
    config["mounts"].push_back(
        {{"destination", destination}, {"type", type}, {"source", source}, {"options", options}});
}

// A network namespace of the container's own has no way to the servers, unless a hook makes one.
bool is_cut_off(const Json &config)
{
    if (config.contains("hooks") && !config["hooks"].empty()) return false;
    Json::json_pointer namespaces("/linux/namespaces");
    if (!config.contains(namespaces) || !config[namespaces].is_array()) return false;
    return std::any_of(config[namespaces].begin(), config[namespaces].end(), [](const Json &entry) {
        return entry.is_object() && entry.value("type", "") == "network" &&
               entry.value("path", "").empty();
    });
}

// fstab(5) has no spaces in its fields.
std::string field(const std::string &text)
{
    std::string out;
    for (char c : text) switch (c) {
        case ' ': out += "\\040"; break;
        case '\t': out += "\\011"; break;
        case '\n': out += "\\012"; break;
        case '\\': out += "\\134"; break;
        default: out += c;
        }
    return out;
}

}  // namespace

const std::string *find_variable(const Environment &environment, const std::string &name)
{
    for (auto entry = environment.rbegin(); entry != environment.rend(); ++entry)
        if (entry->starts_with(name + "=")) return &*entry;
    return nullptr;
}

std::string value_of(const Environment &environment, const std::string &name)
{
    const std::string *entry = find_variable(environment, name);
    return entry ? entry->substr(name.size() + 1) : std::string();
}

void set_variable(Environment &environment, const std::string &name, const std::string &value)
{
    std::erase_if(environment,
                  [&](const std::string &entry) { return entry.starts_with(name + "="); });
    environment.push_back(name + "=" + value);
}

std::string lease_of(const Environment &environment, const SlurmConfig &config)
{
    if (std::string lease = value_of(environment, "RGPU_LEASE"); !lease.empty()) return lease;
    std::string job = value_of(environment, "SLURM_JOB_ID"),
                node = value_of(environment, "SLURMD_NODENAME");
    if (job.empty() || job.find('/') != job.npos) return {};
    std::string lease = slurm::lease_path(config.rundir, node, job);
    return access(lease.c_str(), R_OK) == 0 ? lease : std::string();
}

Result<ContainerParts> parts_for(const Container &container, const std::string &lease,
                                 const std::string &interposer_dir)
{
    ContainerParts parts;
    if (access(lease.c_str(), R_OK) != 0)
        return error(ErrorKind::invalid, "lease file %s: %s", lease.c_str(), strerror(errno));
    for (const char *directory : {kInContainer, "/tmp/rgpu", "/dev/rgpu"})
        if (parts.directory.empty() && can_have(container, directory)) parts.directory = directory;
    if (parts.directory.empty())
        return error(
            ErrorKind::invalid,
            "nothing can be put into %s: make the directory %s in it, or let this user write there",
            container.rootfs.c_str(), kInContainer);
    parts.mounts.push_back({lease, parts.directory + "/lease.json"});
    std::string search = value_of(container.environment, "LD_LIBRARY_PATH");
    for (const char *name : kLibraries) {
        std::string library = interposer_dir + "/" + name;
        if (access(library.c_str(), R_OK) != 0) {
            if (name == kLibraries[0])
                return error(ErrorKind::invalid,
                             "%s: %s; set interposer_dir below [client] in rgpu.conf",
                             library.c_str(), strerror(errno));
            continue;  // built where there was no nvml.h
        }
        parts.mounts.push_back({library, parts.directory + "/" + name});
        for (const std::string &place : places_for(container.rootfs, name, search)) {
            if (can_have(container, place))
                parts.mounts.push_back({library, place});
            else if (name == kLibraries[0])
                parts.warnings.push_back("programs in the container that set LD_LIBRARY_PATH "
                                         "themselves will not find the GPUs: "
                                         "this user cannot make " +
                                         container.rootfs + place +
                                         "; make an empty file of that name");
        }
    }
    if (std::string version = missing_glibc(container.rootfs, interposer_dir + "/libcuda.so.1");
        !version.empty())
        parts.warnings.push_back(
            "programs in the container will find no GPU: its C library is older than the glibc " +
            version + " that rgpu's libcuda.so.1 needs");
    for (BindMount &mount : neighbour_mounts(interposer_dir, parts.directory))
        parts.mounts.push_back(std::move(mount));
    parts.environment.emplace_back("RGPU_LEASE", parts.directory + "/lease.json");
    // By this `rgpu slurm lost` knows the job's processes, from outside.
    parts.environment.emplace_back("RGPU_LEASE_OUTSIDE", lease);
    parts.environment.emplace_back(
        "LD_LIBRARY_PATH", search.empty() ? parts.directory : parts.directory + ":" + search);
    add_programs(parts, container, interposer_dir);
    add_nccl(parts, container, interposer_dir);
    if (auto gpus = view::read_gpus(lease)) {
        parts.devices = devices_for(gpus->size());
        for (auto &variable : view::gpu_variables(*gpus))
            parts.environment.push_back(std::move(variable));
        add_compilers(parts, container, *gpus, interposer_dir);
    }
    // NVIDIA's own hooks would look for a driver on this host, and fail or put it in front.
    if (find_variable(container.environment, "NVIDIA_VISIBLE_DEVICES"))
        parts.environment.emplace_back("NVIDIA_VISIBLE_DEVICES", "void");
    return parts;
}

Result<std::vector<std::string>> add_to_bundle(Json &config, const std::string &bundle,
                                               const Environment &own, const SlurmConfig &slurm,
                                               const std::string &interposer_dir)
{
    Json::json_pointer root("/root/path");
    if (!config.is_object() || !config.contains(root) || !config[root].is_string())
        return error(ErrorKind::invalid,
                     "%s/config.json is no OCI configuration: it has no root.path", bundle.c_str());
    std::string rootfs = config[root].get<std::string>();
    Container container{rootfs.starts_with("/") ? rootfs : bundle + "/" + rootfs,
                        environment_in(config), tmpfs_in(config)};
    if (find_variable(container.environment, "RGPU_LEASE_OUTSIDE"))
        return std::vector<std::string>{};
    std::string lease = lease_of(own, slurm);
    if (!lease.empty() && find_variable(own, kVisible))
        set_variable(container.environment, kVisible, value_of(own, kVisible));
    if (lease.empty()) lease = lease_of(container.environment, slurm);
    if (lease.empty()) return std::vector<std::string>{};
    auto parts = parts_for(container, lease, interposer_dir);
    if (!parts) return std::move(parts).error();
    if (!config["mounts"].is_array()) config["mounts"] = Json::array();
    add_mount(config, "tmpfs", "tmpfs", parts->directory, kTmpfsOptions);
    for (const BindMount &mount : parts->mounts)
        add_mount(config, "bind", mount.source, mount.destination, kBindOptions);
    const bool own_dev = std::find(container.tmpfs.begin(), container.tmpfs.end(), "/dev") !=
                         container.tmpfs.end();
    for (const BindMount &device : parts->devices)
        if (own_dev) add_mount(config, "bind", device.source, device.destination, kDeviceOptions);
    for (const auto &[name, value] : parts->environment)
        set_variable(container.environment, name, value);
    config["process"]["env"] = container.environment;
    if (is_cut_off(config))
        parts->warnings.push_back(
            "the container has a network namespace of its own, from which no GPU server can be "
            "reached: "
            "take \"network\" out of linux.namespaces in the bundle's config.json");
    return parts->warnings;
}

std::string as_fstab(const ContainerParts &parts)
{
    std::string text = "tmpfs " + field(parts.directory) +
                       " tmpfs x-create=dir,nosuid,nodev,mode=0755,size=64k\n";
    for (const BindMount &mount : parts.mounts)
        text += field(mount.source) + " " + field(mount.destination) +
                " none x-create=file,bind,ro,nosuid,nodev,private\n";
    return text;
}

}  // namespace rgpu::cli
