// SPDX-License-Identifier: Apache-2.0
// Leases and drains in a SQLite file: what rgpud must still know after kill -9, and after a reboot.
//
// Each change is one transaction, on the disk (WAL, fsync) before the call returns. The file holds
// the leases' secrets: mode 0600. One rgpud at a time has it open. sqlite_schema.h has its tables.
#pragma once

#include <memory>
#include <string>

#include "pool/ledger/lease_store.h"

struct sqlite3;

namespace rgpu::serverd {

class SqliteStore : public pool::LeaseStore {
public:
    // Makes the file when it is not there. Fails with `unavailable` when another rgpud has it, with
    // `invalid` when it is of a newer version or cannot be written.
    static Result<std::unique_ptr<SqliteStore>> open(const std::string &path);
    ~SqliteStore() override;

    Result<void> put(const pool::Lease &lease) override;
    Result<void> erase(const std::string &id) override;
    Result<std::vector<pool::Lease>> load() override;
    Result<void> put(const pool::Drain &drain) override;
    Result<void> erase_drain(const std::string &gpu) override;
    Result<std::vector<pool::Drain>> load_drains() override;

private:
    explicit SqliteStore(std::string path) : path_(std::move(path)) {}
    Result<void> open_file();
    Result<void> set_up();
    // Runs work() as one transaction, and says in which file something failed.
    template <class Work> Result<void> change(Work &&work);

    std::string path_;
    sqlite3 *db_ = nullptr;
};

}  // namespace rgpu::serverd
