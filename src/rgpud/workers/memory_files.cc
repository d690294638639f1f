#include "rgpud/workers/memory_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "serverd/memory_account.h"

namespace rgpu::serverd {
namespace {

constexpr const char *kSoftwareGpus = ".softgpu";  // after the lease

}  // namespace

Result<void> MemoryFiles::open(const std::string &directory)
{
    directory_ = directory;
    if ((mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) ||
        chmod(directory.c_str(), 0700) != 0)
        return error(ErrorKind::internal, "%s: %s; see [rgpud] state_dir in rgpu.conf",
                     directory.c_str(), strerror(errno));
    return {};
}

Result<Fd> MemoryFiles::open_file(const std::string &name) const
{
    std::string path = directory_ + "/" + name;
    Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file)
        return error(errno == EMFILE || errno == ENOSPC ? ErrorKind::exhausted
                                                        : ErrorKind::internal,
                     "%s: %s", path.c_str(), strerror(errno));
    return file;
}

Result<Fd> MemoryFiles::account(const pool::Lease &lease, int64_t max_workers) const
{
    Result<Fd> file = open_file(lease.id);
    uint64_t bytes = worker::MemoryAccount::file_bytes(static_cast<uint64_t>(max_workers) + 1,
                                                       lease.gpus.size());  // one waits
    struct stat state;
    // Never smaller: workers have it mapped. Another max_workers counts from the next lease on.
    if (file && (fstat(file->get(), &state) != 0 ||
                 (state.st_size == 0 && ftruncate(file->get(), static_cast<off_t>(bytes)) != 0)))
        return error(ErrorKind::exhausted, "%s/%s: %s", directory_.c_str(), lease.id.c_str(),
                     strerror(errno));
    return file;
}

Result<Fd> MemoryFiles::software_gpus(const pool::Lease &lease) const
{
    return open_file(lease.id + kSoftwareGpus);
}

void MemoryFiles::forget(const std::string &lease) const
{
    unlink((directory_ + "/" + lease).c_str());
    unlink((directory_ + "/" + lease + kSoftwareGpus).c_str());
}

void MemoryFiles::forget_all_but(const std::set<std::string> &leases) const
{
    std::error_code failure;
    for (const auto &entry : std::filesystem::directory_iterator(directory_, failure)) {
        std::string name = entry.path().filename(), lease = name;
        if (lease.ends_with(kSoftwareGpus)) lease.erase(lease.size() - strlen(kSoftwareGpus));
        if (!leases.count(lease)) unlink((directory_ + "/" + name).c_str());
    }
}

}  // namespace rgpu::serverd
