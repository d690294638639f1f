// The files by which workers keep a lease's cap on memory: made and opened by rgpud, handed to workers as descriptors.
#pragma once

#include <set>
#include <string>

#include "pool/messages.h"
#include "util/fd.h"
#include "util/result.h"

namespace rgpu::serverd {

class MemoryFiles {
public:
    // Makes `directory`, closed to all but rgpud.
    Result<void> open(const std::string &directory);

    // The lease's account (worker/memory_account.h), opened anew: each worker's locks are its own.
    Result<Fd> account(const pool::Lease &lease, int64_t max_workers) const;
    // One byte for each of the host's GPUs, locked while a worker asks the driver what a call cost.
    Result<Fd> host_locks() const;

    void forget(const std::string &lease) const;
    // Forgets all but these: an rgpud before this one may have died before it did.
    void forget_all_but(const std::set<std::string> &leases) const;

private:
    Result<Fd> open_file(const std::string &name) const;
    std::string directory_;
};

}  // namespace rgpu::serverd
