// SPDX-License-Identifier: Apache-2.0
// The files by which a lease's workers know of each other's memory: made by rgpud in memory, kept
// for the lease (Boards::keep), handed to workers as descriptors.
//
// Each belongs to one lease, whose workers may write anything there and hold every lock: rgpud
// takes no lock there, and reads the account alone, and no other lease's worker has them open.
// Nobody changes an account's size. The software GPUs' file counts as memory of the tenant that
// writes it.
//
// One thread at a time.
#pragma once

#include <string>
#include <vector>

#include "pool/messages/messages.h"
#include "rgpud/host/boards.h"
#include "serverd/memory_account.h"
#include "util/fd.h"
#include "util/result.h"

namespace rgpu::serverd {

class MemoryFiles {
public:
    // `boards` must outlive it.
    explicit MemoryFiles(const Boards &boards) : boards_(boards) {}

    // The lease's account (serverd/memory_account.h), opened anew: each worker's locks are its own.
    Result<Fd> account(const pool::Lease &lease, int64_t max_workers);
    // What its workers hold of each of the lease's GPUs. Takes no lock, and waits for nobody.
    std::vector<worker::MemoryAccount::InUse> in_use(const pool::Lease &lease) const;
    // What the lease's processes on software GPUs share (softgpu/driver/base/gpu_host.h), opened
    // anew.
    Result<Fd> software_gpus(const pool::Lease &lease);

private:
    Result<Fd> open_file(const std::string &lease, const char *name, uint64_t bytes);
    Result<void> make(const std::string &lease, const char *name, uint64_t bytes) const;

    const Boards &boards_;
};

}  // namespace rgpu::serverd
