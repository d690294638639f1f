// SPDX-License-Identifier: Apache-2.0
#include "rgpud/leases/usage_store.h"

#include <fcntl.h>
#include <sqlite3.h>

#include <cerrno>
#include <cstring>

#include "pool/messages/lease_json.h"
#include "rgpud/leases/sqlite_statement.h"
#include "util/fd.h"

namespace rgpu::serverd {
namespace {

// The body is the control API's JSON of the lease: a field that a later rgpud adds is missing in
// older rows, and reads as 0.
constexpr char kSetUp[] =
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;"
    "CREATE TABLE IF NOT EXISTS usage (number INTEGER PRIMARY KEY AUTOINCREMENT,"
    " job TEXT NOT NULL, ended_at INTEGER NOT NULL, body TEXT NOT NULL);"
    "CREATE INDEX IF NOT EXISTS usage_of_job ON usage (job);"
    "CREATE INDEX IF NOT EXISTS usage_ended ON usage (ended_at);";

}  // namespace

Result<std::unique_ptr<UsageStore>> UsageStore::open(const std::string &path)
{
    Fd made(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!made) return error(ErrorKind::invalid, "%s: %s", path.c_str(), strerror(errno));
    made.reset();
    sqlite3 *db = nullptr;
    const int opened =
        sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW, nullptr);
    std::unique_ptr<UsageStore> store(new UsageStore(path, db));
    if (opened != SQLITE_OK) return sqlite_failure(db, "opening it").in(path);
    if (Result<void> done = sqlite_execute(db, kSetUp, "making its table"); !done)
        return std::move(done).error().in(path);
    return store;
}

UsageStore::~UsageStore() { sqlite3_close(db_); }

Result<void> UsageStore::keep(const pool::LeaseUsage &usage, int64_t now)
{
    constexpr const char *kDoing = "keeping what a lease used";
    Result<void> done =
        SqliteStatement(db_, "INSERT INTO usage (job, ended_at, body) VALUES (?, ?, ?)")
            .bind(usage.owner.job)
            .bind(usage.ended_at)
            .bind(pool::encode(usage))
            .run(kDoing);
    if (done)
        done = SqliteStatement(db_, "DELETE FROM usage WHERE ended_at < ?")
                   .bind(now - kKept)
                   .run(kDoing);
    if (done)
        done = SqliteStatement(db_, "DELETE FROM usage WHERE number <= ?")
                   .bind(int64_t{sqlite3_last_insert_rowid(db_)} - kMost)
                   .run(kDoing);
    return done ? Result<void>() : std::move(done).error().in(path_);
}

Result<std::vector<pool::LeaseUsage>> UsageStore::of_job(const std::string &job)
{
    constexpr const char *kDoing = "reading what leases used";
    std::vector<pool::LeaseUsage> all;
    SqliteStatement rows(db_, "SELECT body FROM usage WHERE job = ? ORDER BY number");
    rows.bind(job);
    for (;;) {
        Result<bool> row = rows.step(kDoing);
        if (!row) return std::move(row).error().in(path_);
        if (!*row) return all;
        // One that cannot be read hides no other.
        if (auto usage = pool::decode_usage(rows.text(0))) all.push_back(std::move(*usage));
    }
}

}  // namespace rgpu::serverd
