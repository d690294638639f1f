#include "rgpud/workers/memory_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "serverd/memory_account.h"
#include "util/log.h"

namespace rgpu::serverd {
namespace {

constexpr const char *kAccount = "memory", *kSoftwareGpus = "softgpu";

Error failed(const std::string &lease, const char *name)
{
    return error(ErrorKind::exhausted, "lease %s: its file \"%s\" in memory: %s",
                 short_id(lease).c_str(), name, strerror(errno));
}

}  // namespace

// `bytes` is 0 where a worker decides, once.
Result<Fd> MemoryFiles::make(const std::string &lease, const char *name, uint64_t bytes) const
{
    Fd file(memfd_create(("rgpu " + std::string(name)).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
    const int seals = F_SEAL_SHRINK | F_SEAL_SEAL | (bytes ? F_SEAL_GROW : 0);
    if (!file || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
        fcntl(file.get(), F_ADD_SEALS, seals) != 0)
        return failed(lease, name);
    if (!boards_.keep(lease, name, file))
        log_warning("lease %s: after a restart of rgpud its workers of before are not known to "
                    "later ones: the scheduler does not keep \"%s\"",
                    short_id(lease).c_str(), name);
    return file;
}

Result<Fd> MemoryFiles::open_file(const std::string &lease, const char *name, uint64_t bytes)
{
    Fd &file = files_[{lease, name}];
    if (!file) file = boards_.kept(lease, name);
    if (!file) {
        Result<Fd> made = make(lease, name, bytes);
        if (!made) return made;
        file = std::move(*made);
    }
    Fd again(open(("/proc/self/fd/" + std::to_string(file.get())).c_str(), O_RDWR | O_CLOEXEC));
    if (!again) return failed(lease, name);
    return again;
}

Result<Fd> MemoryFiles::account(const pool::Lease &lease, int64_t max_workers)
{
    // Another max_workers counts from the next lease on.
    return open_file(lease.id, kAccount,
                     worker::MemoryAccount::file_bytes(static_cast<uint64_t>(max_workers) + 1,
                                                       lease.gpus.size()));  // one waits
}

Result<Fd> MemoryFiles::software_gpus(const pool::Lease &lease)
{
    return open_file(lease.id, kSoftwareGpus, 0);
}

void MemoryFiles::forget(const std::string &lease)
{
    for (const char *name : {kAccount, kSoftwareGpus}) files_.erase({lease, name});
}

}  // namespace rgpu::serverd
