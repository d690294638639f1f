// SPDX-License-Identifier: Apache-2.0
#include "rgpud/leases/sqlite_store.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "rgpud/leases/sqlite_fault.h"
#include "rgpud/leases/sqlite_schema.h"
#include "rgpud/leases/sqlite_statement.h"
#include "util/fd.h"

namespace rgpu::serverd {
namespace {

constexpr char kLeases[] = "SELECT id, secret, uid, user, job, node, qos, run, host, pid, term_ms, "
                           "granted_at, boot, span, "
                           "span_gpus, account FROM lease ORDER BY id";
constexpr char kGpus[] =
    "SELECT number, uuid, name, share, most, memory FROM lease_gpu WHERE lease = ? ORDER BY place";

pool::Lease lease_of(const SqliteStatement &row)
{
    pool::Lease lease;
    lease.id = row.text(0);
    lease.secret = row.text(1);
    lease.owner.uid = static_cast<uint32_t>(row.number(2));
    lease.owner.user = row.text(3);
    lease.owner.job = row.text(4);
    lease.owner.node = row.text(5);
    lease.owner.qos = row.text(6);
    lease.owner.run = static_cast<int>(row.number(7));
    lease.owner.host = row.text(8);
    lease.owner.pid = static_cast<uint32_t>(row.number(9));
    lease.term = Milliseconds(row.number(10));
    lease.granted_at = row.number(11);
    lease.boot = row.text(12);
    lease.span = {row.text(13), static_cast<int>(row.number(14))};
    lease.owner.account = row.text(15);
    return lease;
}

pool::Portion gpu_of(const SqliteStatement &row)
{
    pool::Portion gpu;
    gpu.index = static_cast<int>(row.number(0));
    gpu.uuid = row.text(1);
    gpu.name = row.text(2);
    gpu.share = static_cast<int>(row.number(3));
    gpu.most = static_cast<int>(row.number(4));
    gpu.memory = static_cast<uint64_t>(row.number(5));
    return gpu;
}

// Calls take(statement) for each row.
template <class Take> Result<void> each_row(SqliteStatement &rows, const char *doing, Take &&take)
{
    for (;;) {
        Result<bool> row = rows.step(doing);
        if (!row) return std::move(row).error();
        if (!*row) return {};
        if (Result<void> taken = take(rows); !taken) return taken;
    }
}

}  // namespace

Result<std::unique_ptr<SqliteStore>> SqliteStore::open(const std::string &path)
{
    std::unique_ptr<SqliteStore> store(new SqliteStore(path));
    Result<void> opened = store->open_file();
    if (opened) opened = store->set_up();
    if (!opened) return std::move(opened).error();
    return store;
}

SqliteStore::~SqliteStore() { sqlite3_close(db_); }

Result<void> SqliteStore::open_file()
{
    // SQLite's own files beside it get this one's mode.
    Fd made(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!made)
        return error(ErrorKind::invalid, "%s: %s; see [rgpud] state_dir in rgpu.conf",
                     path_.c_str(), strerror(errno));
    made.reset();
    Result<const char *> vfs = fault_vfs();
    if (!vfs) return std::move(vfs).error();
    if (sqlite3_open_v2(path_.c_str(), &db_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW, *vfs) !=
        SQLITE_OK)
        return sqlite_failure(db_, "opening it").in(path_);
    sqlite3_extended_result_codes(db_, 1);
    return {};
}

Result<void> SqliteStore::set_up()
{
    // Exclusive before the first access: no shared memory file, and a second rgpud is refused.
    Result<void> done = sqlite_execute(
        db_,
        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
        "BEGIN IMMEDIATE; COMMIT;",
        "setting it up");
    if (done) done = bring_up_to_date(db_);
    return done ? Result<void>() : std::move(done).error().in(path_);
}

template <class Work> Result<void> SqliteStore::change(Work &&work)
{
    Result<void> done = sqlite_execute(db_, "BEGIN IMMEDIATE", "beginning a change");
    if (done) {
        done = work();
        if (done) done = sqlite_execute(db_, "COMMIT", "writing a change");
        if (!done) (void)sqlite_execute(db_, "ROLLBACK", "undoing a change").has_value();
    }
    return done ? Result<void>() : std::move(done).error().in(path_);
}

Result<void> SqliteStore::put(const pool::Lease &lease)
{
    return change([&] { return put_lease(db_, lease); });
}

Result<void> SqliteStore::erase(const std::string &id)
{
    return change([&]() -> Result<void> {
        constexpr const char *kDoing = "forgetting a lease";
        for (const char *sql :
             {"DELETE FROM lease_gpu WHERE lease = ?", "DELETE FROM lease WHERE id = ?"})
            if (auto done = SqliteStatement(db_, sql).bind(id).run(kDoing); !done) return done;
        return {};
    });
}

Result<std::vector<pool::Lease>> SqliteStore::load()
{
    constexpr const char *kDoing = "reading the leases";
    std::vector<pool::Lease> leases;
    SqliteStatement rows(db_, kLeases);
    auto read = each_row(rows, kDoing, [&](const SqliteStatement &row) {
        pool::Lease lease = lease_of(row);
        SqliteStatement gpus(db_, kGpus);
        auto read_gpus = each_row(gpus.bind(lease.id), kDoing, [&](const SqliteStatement &gpu) {
            lease.gpus.push_back(gpu_of(gpu));
            return Result<void>();
        });
        leases.push_back(std::move(lease));
        return read_gpus;
    });
    if (!read) return std::move(read).error().in(path_);
    return leases;
}

Result<void> SqliteStore::put(const pool::Drain &drain)
{
    return change([&] {
        return SqliteStatement(db_,
                               "INSERT OR REPLACE INTO drain (gpu, reason, since) VALUES (?, ?, ?)")
            .bind(drain.gpu)
            .bind(drain.reason)
            .bind(drain.since)
            .run("keeping a drain");
    });
}

Result<void> SqliteStore::erase_drain(const std::string &gpu)
{
    return change([&] {
        return SqliteStatement(db_, "DELETE FROM drain WHERE gpu = ?")
            .bind(gpu)
            .run("forgetting a drain");
    });
}

Result<std::vector<pool::Drain>> SqliteStore::load_drains()
{
    std::vector<pool::Drain> drains;
    SqliteStatement rows(db_, "SELECT gpu, reason, since FROM drain ORDER BY gpu");
    auto read = each_row(rows, "reading the drains", [&](const SqliteStatement &row) {
        drains.push_back({row.text(0), row.text(1), row.number(2)});
        return Result<void>();
    });
    if (!read) return std::move(read).error().in(path_);
    return drains;
}

}  // namespace rgpu::serverd
