// SPDX-License-Identifier: Apache-2.0
// What ended leases used, for a month, in a SQLite file of its own: for `rgpu report`.
//
// Nothing else depends on it. Where the file cannot be opened or written, a line in the log says
// so, and reports lack these leases. A row that the host's sudden end costs is no loss: each is
// written without waiting for the disk. The caller locks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pool/messages/messages.h"
#include "util/result.h"

struct sqlite3;

namespace rgpu::serverd {

class UsageStore {
public:
    // Seconds that a lease is kept, and how many are: the oldest go.
    static constexpr int64_t kKept = 31 * 24 * 3600;
    static constexpr int64_t kMost = 100'000;

    // Makes the file when it is not there. It says what leases used, and nothing secret: mode 0600
    // all the same. Fails where it cannot be used.
    static Result<std::unique_ptr<UsageStore>> open(const std::string &path);
    ~UsageStore();
    UsageStore(const UsageStore &) = delete;

    // Of a lease that has ended (ended_at). `now`: seconds since the epoch, which what is older
    // than kKept goes by.
    Result<void> keep(const pool::LeaseUsage &usage, int64_t now);
    // Those of a job, the one that ended first before the others.
    Result<std::vector<pool::LeaseUsage>> of_job(const std::string &job);

private:
    UsageStore(std::string path, sqlite3 *db) : path_(std::move(path)), db_(db) {}

    std::string path_;
    sqlite3 *db_;
};

}  // namespace rgpu::serverd
