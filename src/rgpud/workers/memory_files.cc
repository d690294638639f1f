// SPDX-License-Identifier: Apache-2.0
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
Result<void> MemoryFiles::make(const std::string &lease, const char *name, uint64_t bytes) const
{
    Fd file(memfd_create(("rgpu " + std::string(name)).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
    const int seals = F_SEAL_SHRINK | F_SEAL_SEAL | (bytes ? F_SEAL_GROW : 0);
    if (!file || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
        fcntl(file.get(), F_ADD_SEALS, seals) != 0)
        return failed(lease, name);
    if (!boards_.keep(lease, name, std::move(file)))
        log_warning("lease %s: after a restart of rgpud its workers of before are not known to "
                    "later ones: the scheduler does not keep \"%s\"",
                    short_id(lease).c_str(), name);
    return {};
}

Result<Fd> MemoryFiles::open_file(const std::string &lease, const char *name, uint64_t bytes)
{
    Fd file = boards_.file_of(lease, name);
    if (!file) {
        if (Result<void> made = make(lease, name, bytes); !made) return std::move(made).error();
        file = boards_.file_of(lease, name);
    }
    if (!file) return failed(lease, name);
    return file;
}

Result<Fd> MemoryFiles::account(const pool::Lease &lease, int64_t max_workers)
{
    // Another max_workers counts from the next lease on.
    return open_file(lease.id, kAccount,
                     worker::MemoryAccount::file_bytes(static_cast<uint64_t>(max_workers) + 1,
                                                       lease.gpus.size()));  // one waits
}

std::vector<worker::MemoryAccount::InUse> MemoryFiles::in_use(const pool::Lease &lease) const
{
    const Fd file = boards_.file_of(lease.id, kAccount);
    if (!file) return std::vector<worker::MemoryAccount::InUse>(lease.gpus.size());
    return worker::MemoryAccount::in_use(file, lease.gpus.size());
}

Result<Fd> MemoryFiles::software_gpus(const pool::Lease &lease)
{
    return open_file(lease.id, kSoftwareGpus, 0);
}

}  // namespace rgpu::serverd
