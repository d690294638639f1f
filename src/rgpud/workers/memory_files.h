// The files by which a lease's workers know of each other's memory: made and opened by rgpud,
// handed to workers as descriptors. Each belongs to one lease, whose workers may write anything
// there and hold every lock: rgpud reads none of them and takes no lock, and no other lease's
// worker has them open.
#pragma once

#include <set>
#include <string>

#include "pool/messages/messages.h"
#include "util/fd.h"
#include "util/result.h"

namespace rgpu::serverd {

class MemoryFiles {
public:
    // Makes `directory`, closed to all but rgpud.
    Result<void> open(const std::string &directory);

    // The lease's account (serverd/memory_account.h), opened anew: each worker's locks are its own.
    Result<Fd> account(const pool::Lease &lease, int64_t max_workers) const;
    // What the lease's processes on software GPUs share (softgpu/driver/base/gpu_host.h), opened
    // anew.
    Result<Fd> software_gpus(const pool::Lease &lease) const;

    void forget(const std::string &lease) const;
    // Forgets all but these: an rgpud before this one may have died before it did.
    void forget_all_but(const std::set<std::string> &leases) const;

private:
    Result<Fd> open_file(const std::string &name) const;
    std::string directory_;
};

}  // namespace rgpu::serverd
