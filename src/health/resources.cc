// SPDX-License-Identifier: Apache-2.0
// Checks of what the system gives a process: descriptors, memory, disk, our own files.
#include <sys/statvfs.h>
#include <unistd.h>

#include <sstream>

#include "health/check.h"

namespace rgpu::health {
namespace {

// The soft limit of a line of /proc/self/limits; nothing where it is not there.
bool limit_of(const Host &host, const std::string &name, uint64_t &value)
{
    std::istringstream lines(text_of(host, "/proc/self/limits"));
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with(name)) continue;
        std::istringstream words(line.substr(name.size()));
        std::string soft;
        words >> soft;
        value = soft == "unlimited" ? UINT64_MAX : strtoull(soft.c_str(), nullptr, 10);
        return !soft.empty();
    }
    return false;
}

// Bytes, of a line of /proc/meminfo; 0 where it is not there.
uint64_t meminfo(const Host &host, const std::string &wanted)
{
    std::istringstream lines(text_of(host, "/proc/meminfo"));
    for (std::string name, rest; lines >> name && std::getline(lines, rest);)
        if (name == wanted) return strtoull(rest.c_str(), nullptr, 10) << 10;
    return 0;
}

Finding judged(Verdict verdict, std::string value, std::string limit, std::string cure)
{
    Finding finding = pass("", std::move(value), std::move(limit));
    finding.verdict = verdict;
    if (verdict != Verdict::pass) finding.cure = std::move(cure);
    return finding;
}

// Where a limit of processes is set: "NOFILE" of systemd and Slurm, "nofile" of PAM.
std::string raise(const Host &host, const std::string &slurm, const std::string &pam,
                  const std::string &value, const std::string &pam_value)
{
    const std::string unit = "Limit" + slurm + "=" + value + " in ";
    if (host.server) return unit + "rgpud's unit (systemctl edit rgpud), then restart rgpud";
    return unit +
           "slurmd's unit (systemctl edit slurmd) with PropagateResourceLimitsExcept=" + slurm +
           " in slurm.conf; for login shells \"* - " + pam + " " + pam_value +
           "\" in /etc/security/limits.conf";
}

}  // namespace

Findings open_files(const Host &host)
{
    uint64_t files = 0;
    if (!limit_of(host, "Max open files", files))
        return {skipped("", "/proc/self/limits cannot be read")};
    const Limits &l = host.limits;
    return {judged(at_least(static_cast<double>(files), static_cast<double>(l.open_files),
                            static_cast<double>(l.fewest_open_files)),
                   files == UINT64_MAX ? "unlimited" : std::to_string(files),
                   "at least " + std::to_string(l.open_files),
                   "raise ulimit -n: " + raise(host, "NOFILE", "nofile", "65536", "65536"))};
}

Findings locked_memory(const Host &host)
{
    uint64_t bytes = 0;
    if (!limit_of(host, "Max locked memory", bytes))
        return {skipped("", "/proc/self/limits cannot be read")};
    return {
        judged(at_least(static_cast<double>(bytes), static_cast<double>(host.limits.locked_memory)),
               size_text(bytes), "at least " + size_text(host.limits.locked_memory),
               "raise ulimit -l: " + raise(host, "MEMLOCK", "memlock", "infinity", "unlimited"))};
}

Findings shared_memory(const Host &host)
{
    struct statvfs fs;
    if (statvfs((host.root + "/dev/shm").c_str(), &fs) != 0)
        return {marginal("", "there is no /dev/shm",
                         "at least " + size_text(host.limits.shared_memory),
                         "mount a tmpfs at /dev/shm; in containers --shm-size=1g")};
    uint64_t bytes = uint64_t{fs.f_bavail} * fs.f_frsize;
    return {judged(
        at_least(static_cast<double>(bytes), static_cast<double>(host.limits.shared_memory)),
        size_text(bytes) + " free in /dev/shm", "at least " + size_text(host.limits.shared_memory),
        "remove what is left in /dev/shm, or make it larger: mount -o remount,size=50% /dev/shm; "
        "in containers --shm-size=1g")};
}

Findings memory(const Host &host)
{
    const uint64_t bytes = meminfo(host, "MemAvailable:");
    if (!bytes) return {skipped("", "/proc/meminfo tells no MemAvailable")};
    return {judged(at_least(static_cast<double>(bytes), static_cast<double>(host.limits.memory)),
                   size_text(bytes) + " available", "at least " + size_text(host.limits.memory),
                   "see what takes the memory (ps aux --sort=-rss | head), and end it")};
}

Findings host_memory(const Host &host)
{
    uint64_t gpus = 0;
    for (const Host::Gpu &gpu : host.gpus) gpus += gpu.memory;
    const uint64_t bytes = meminfo(host, "MemTotal:");
    if (host.software) return {skipped("", "the GPUs are software: their memory is the host's")};
    if (!bytes || !gpus)
        return {skipped("", bytes ? "no GPU tells its memory" : "/proc/meminfo tells no MemTotal")};
    const double least = host.limits.host_memory * static_cast<double>(gpus);
    return {judged(at_least(static_cast<double>(bytes), least), size_text(bytes),
                   "at least " + size_text(static_cast<uint64_t>(least)) + ", as the GPUs have",
                   "add memory, or lend fewer GPUs: copies of programs pass through it")};
}

// What programs bring along, or find in their images; where a server has it, rgpu can use it there.
Findings users_libraries(const Host &host)
{
    Findings all;
    for (const char *name : {"libnccl.so.2", "libcudnn.so.9"}) {
        std::string found;
        for (const char *folder : {"/usr/lib/x86_64-linux-gnu/", "/usr/lib64/", "/usr/local/lib/",
                                   "/usr/local/cuda/lib64/"})
            if (found.empty() && access((host.root + folder + name).c_str(), R_OK) == 0)
                found = std::string(folder) + name;
        all.push_back(found.empty()
                          ? info(name, "not on this server",
                                 "nothing to do where programs bring their own, as PyTorch does")
                          : info(name, found));
    }
    return all;
}

Findings settings(const Host &host)
{
    return {host.settings.empty() ? skipped("", "it does not tell them") : info("", host.settings)};
}

Findings disk(const Host &host)
{
    struct statvfs fs;
    if (statvfs((host.root + host.state_dir).c_str(), &fs) != 0)
        return {fatal("", host.state_dir + " is not there", "it exists",
                      "make it, or set [rgpud] state_dir in rgpu.conf")};
    const Limits &l = host.limits;
    uint64_t bytes = uint64_t{fs.f_bavail} * fs.f_frsize;
    Verdict space = at_least(static_cast<double>(bytes), static_cast<double>(l.disk),
                             static_cast<double>(l.least_disk));
    // Some file systems count no files.
    Verdict files = fs.f_files == 0 ? Verdict::pass
                                    : at_least(static_cast<double>(fs.f_favail),
                                               static_cast<double>(l.disk_files),
                                               static_cast<double>(l.fewest_disk_files));
    if (files > space)
        return {judged(files, std::to_string(fs.f_favail) + " files free in " + host.state_dir,
                       "at least " + std::to_string(l.disk_files),
                       "remove files from that file system: it has no inodes left")};
    return {judged(space, size_text(bytes) + " free in " + host.state_dir,
                   "at least " + size_text(l.disk),
                   "make room on that file system: leases are kept there (" + host.state_dir +
                       "/cache holds compiled kernels, and may be emptied)")};
}

Findings libraries(const Host &host)
{
    Findings all;
    auto look = [&](const std::string &what, const std::string &path, int how, bool needed,
                    const std::string &cure) {
        if (access((host.root + path).c_str(), how) == 0)
            all.push_back(pass(what, path));
        else if (needed)
            all.push_back(fatal(what, path + " is missing", "it is there", cure));
        else
            all.push_back(marginal(what, path + " is missing", "it is there", cure));
    };
    if (host.server) {
        look("worker", host.worker, X_OK, true,
             "install rgpu again, or set [rgpud] worker in rgpu.conf");
        return all;
    }
    look("interposer", host.interposer_dir + "/libcuda.so.1", R_OK, true,
         "install rgpu again, or set [client] interposer_dir in rgpu.conf");
    for (const std::string &folder : host.library_path)
        look("library path", folder, R_OK | X_OK, false,
             "install the CUDA Toolkit there, or take the folder out of [client] library_path");
    return all;
}

}  // namespace rgpu::health
