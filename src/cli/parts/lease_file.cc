// SPDX-License-Identifier: Apache-2.0
#include "cli/parts/lease_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "pool/messages/lease_json.h"
#include "util/fd.h"
#include "view/compilers.h"
#include "view/nccl.h"
#include "view/programs.h"

namespace rgpu::cli {

std::string runtime_dir()
{
    for (const char *name : {"XDG_RUNTIME_DIR", "TMPDIR"})
        if (const char *dir = getenv(name); dir && *dir == '/' && access(dir, W_OK | X_OK) == 0)
            return dir;
    return "/tmp";
}

Result<LeaseFile> LeaseFile::write(const std::vector<pool::Grant> &grants)
{
    std::string directory = runtime_dir() + "/rgpu-run.XXXXXX";
    if (!mkdtemp(directory.data()))
        return error(ErrorKind::invalid, "cannot make %s: %s; set TMPDIR", directory.c_str(),
                     strerror(errno));
    LeaseFile file(directory);
    Result<void> written = write_lease_file(file.path(), grants);
    if (!written) return std::move(written).error();
    return file;
}

Result<void> write_lease_file(const std::string &path, const std::vector<pool::Grant> &grants)
{
    std::string text = pool::lease_file("", grants);
    Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0400));
    if (!fd || ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
        return error(ErrorKind::invalid, "cannot write %s: %s", path.c_str(), strerror(errno));
    return {};
}

Result<std::vector<pool::Grant>> read_lease_file(const std::string &path)
{
    constexpr size_t kMost = 1024 * 1024;
    std::string text(kMost, '\0');
    Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    ssize_t n = fd ? read(fd.get(), text.data(), text.size()) : -1;
    if (n < 0) return error(ErrorKind::invalid, "%s: %s", path.c_str(), strerror(errno));
    text.resize(static_cast<size_t>(n));
    auto grants = pool::decode_lease_file(text);
    if (!grants)
        return error(ErrorKind::invalid, "%s is no lease file: %s", path.c_str(),
                     grants.error().text.c_str());
    return grants;
}

LeaseFile::~LeaseFile()
{
    if (directory_.empty()) return;
    unlink(path().c_str());
    rmdir(directory_.c_str());
}

std::string interposer_dir(const ClientConfig &config)
{
    char path[4096];
    ssize_t n = access((config.interposer_dir + "/libcuda.so.1").c_str(), R_OK) == 0
                    ? 0
                    : readlink("/proc/self/exe", path, sizeof path);
    std::string program(path, n > 0 ? static_cast<size_t>(n) : 0);
    size_t slash = program.rfind('/');
    size_t above = slash == program.npos || slash == 0 ? program.npos
                                                       : program.rfind('/', slash - 1);
    if (above == program.npos) return config.interposer_dir;
    std::string beside = program.substr(0, above) + "/lib/rgpu/interpose";
    return access((beside + "/libcuda.so.1").c_str(), R_OK) == 0 ? beside : config.interposer_dir;
}

// A lease file that says nothing of its GPUs says it of real ones.
static void set_variables(const std::string &lease_file, const std::string &interposer_dir)
{
    const auto gpus = view::read_gpus(lease_file);
    if (!gpus) return;
    const auto variables = view::compiler_variables(*gpus, view::toolkit_dir(interposer_dir),
                                                    [](const char *name) -> std::string {
                                                        const char *value = getenv(name);
                                                        return value ? value : "";
                                                    });
    for (const auto &[name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    for (const auto &[name, value] : view::gpu_variables(*gpus))
        setenv(name.c_str(), value.c_str(), 1);
    const auto present = [](const char *name) {
        const char *const value = getenv(name);
        return std::string(value ? value : "");
    };
    const std::string preload = view::nccl_preload(present("LD_PRELOAD"), *gpus, false,
                                                   present("RGPU_NCCL"), interposer_dir);
    if (preload != present("LD_PRELOAD")) setenv("LD_PRELOAD", preload.c_str(), 1);
}

void set_environment(const std::string &lease_file, const ClientConfig &config)
{
    setenv("RGPU_LEASE", lease_file.c_str(), 1);
    if (config.transport != "auto") setenv("RGPU_TRANSPORT", config.transport.c_str(), 0);
    if (config.compression != "auto") setenv("RGPU_COMPRESSION", config.compression.c_str(), 0);
    if (config.connections != "auto") setenv("RGPU_CONNECTIONS", config.connections.c_str(), 0);
    std::string libraries = interposer_dir(config);
    if (std::string programs = view::programs_dir(libraries); !programs.empty()) {
        const char *before = getenv("PATH");
        setenv("PATH", view::search_path(before ? before : "", programs).c_str(), 1);
    }
    set_variables(lease_file, libraries);
    for (const std::string &dir : config.library_path) libraries += ":" + dir;
    if (const char *before = getenv("LD_LIBRARY_PATH"); before && *before)
        libraries += std::string(":") + before;
    setenv("LD_LIBRARY_PATH", libraries.c_str(), 1);
}

}  // namespace rgpu::cli
