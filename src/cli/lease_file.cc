#include "cli/lease_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "util/fd.h"

namespace rgpu::cli {
namespace {

std::string runtime_dir()
{
    for (const char *name : {"XDG_RUNTIME_DIR", "TMPDIR"})
        if (const char *dir = getenv(name); dir && *dir == '/' && access(dir, W_OK | X_OK) == 0)
            return dir;
    return "/tmp";
}

}  // namespace

Result<LeaseFile> LeaseFile::write(const std::vector<pool::Grant> &grants)
{
    std::string directory = runtime_dir() + "/rgpu-run.XXXXXX";
    if (!mkdtemp(directory.data()))
        return error(ErrorKind::invalid, "cannot make %s: %s; set TMPDIR", directory.c_str(),
                     strerror(errno));
    LeaseFile file(directory);
    std::string text = pool::lease_file("", grants);
    Fd fd(open(file.path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400));
    if (!fd || ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
        return error(ErrorKind::invalid, "cannot write %s: %s", file.path().c_str(),
                     strerror(errno));
    return file;
}

LeaseFile::~LeaseFile()
{
    if (directory_.empty())
        return;
    unlink(path().c_str());
    rmdir(directory_.c_str());
}

void set_environment(const std::string &lease_file, const ClientConfig &config)
{
    setenv("RGPU_LEASE", lease_file.c_str(), 1);
    std::string libraries = config.interposer_dir;
    for (const std::string &dir : config.library_path)
        libraries += ":" + dir;
    if (const char *before = getenv("LD_LIBRARY_PATH"); before && *before)
        libraries += std::string(":") + before;
    setenv("LD_LIBRARY_PATH", libraries.c_str(), 1);
}

}  // namespace rgpu::cli
