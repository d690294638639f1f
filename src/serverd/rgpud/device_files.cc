#include "serverd/rgpud/device_files.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

namespace rgpu::serverd {
namespace {

namespace fs = std::filesystem;

// shm: what processes of one program share.
constexpr const char *kEveryProgram[] = {"null", "zero", "full", "random", "urandom", "shm"};
constexpr const char *kNvidia[] = {"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"};

bool is_number(const std::string &text)
{
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// What stands behind "NAME:" in a line of the driver's.
std::string behind(const std::string &line, const std::string &name)
{
    size_t colon = line.find(':');
    if (!line.starts_with(name) || colon == line.npos)
        return "";
    size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == line.npos ? "" : line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
}

// UUID -> "nvidia0"
std::map<std::string, std::string> names_by_uuid(const std::string &proc)
{
    std::map<std::string, std::string> names;
    std::error_code failure;
    for (const fs::directory_entry &gpu : fs::directory_iterator(proc + "/gpus", failure)) {
        std::ifstream file(gpu.path() / "information");
        std::string uuid, minor;
        for (std::string line; std::getline(file, line);) {
            if (std::string text = behind(line, "GPU UUID"); !text.empty())
                uuid = text;
            if (std::string text = behind(line, "Device Minor"); is_number(text))
                minor = text;
        }
        if (!uuid.empty() && !minor.empty())
            names[uuid] = "nvidia" + minor;
    }
    return names;
}

}  // namespace

std::vector<std::string> device_names(bool software, const std::vector<std::string> &uuids, const std::string &dev,
                                      const std::string &proc)
{
    std::vector<std::string> names(std::begin(kEveryProgram), std::end(kEveryProgram));
    if (!software) {
        names.insert(names.end(), std::begin(kNvidia), std::end(kNvidia));
        std::map<std::string, std::string> known = names_by_uuid(proc);
        bool all = uuids.empty();
        for (const std::string &uuid : uuids) {
            // Part of a GPU is reached through its own files, whose access the driver checks.
            auto found = known.find(uuid);
            if (found != known.end())
                names.push_back(found->second);
            else
                all = true;
            if (uuid.starts_with("MIG-"))
                names.push_back("nvidia-caps");
        }
        std::error_code failure;
        if (all)
            for (const fs::directory_entry &file : fs::directory_iterator(dev, failure))
                if (std::string name = file.path().filename(); name.starts_with("nvidia") && is_number(name.substr(6)))
                    names.push_back(name);
    }
    std::erase_if(names, [&](const std::string &name) { return access((dev + "/" + name).c_str(), F_OK) != 0; });
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
}

OwnDev::OwnDev(const std::string &at, const std::vector<std::string> &names) : at_(at)
{
    for (const std::string &name : names) {
        struct stat state;
        std::string from = "/dev/" + name;
        if (stat(from.c_str(), &state) == 0)
            parts_.push_back({from, at + "/" + name, S_ISDIR(state.st_mode)});
    }
}

bool OwnDev::enter() const
{
    if (at_.empty())
        return true;
    // A slave: what the host unmounts later is unmounted here, too, and nothing of this is seen there.
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0 ||
        mount("rgpu", at_.c_str(), "tmpfs", MS_NOSUID | MS_NOEXEC, "size=64k,mode=0755") != 0)
        return false;
    for (const Part &part : parts_) {
        int made = part.directory ? mkdir(part.to.c_str(), 0755) : open(part.to.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        if (made < 0 || mount(part.from.c_str(), part.to.c_str(), nullptr, MS_BIND | (part.directory ? MS_REC : 0), nullptr) != 0)
            return false;
        if (!part.directory)
            close(made);
    }
    return mount(nullptr, at_.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC, nullptr) == 0 &&
           mount(at_.c_str(), "/dev", nullptr, MS_MOVE, nullptr) == 0;
}

Result<void> try_own_dev(const std::string &at)
{
    if (mkdir(at.c_str(), 0755) != 0 && errno != EEXIST)
        return error(ErrorKind::invalid, "cannot make the directory %s: %s; see [rgpud] state_dir in rgpu.conf", at.c_str(),
                     strerror(errno));
    OwnDev dev(at, device_names(true, {}));
    pid_t pid = fork();
    if (pid == 0)
        _exit(dev.enter() ? 0 : errno);
    int status = 0;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
        return error(ErrorKind::unsupported, "%s", strerror(pid < 0 ? errno : WIFEXITED(status) ? WEXITSTATUS(status) : EINTR));
    return {};
}

}  // namespace rgpu::serverd
