#include "rgpud/leases/sqlite_store.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "pool/messages/message_json.h"
#include "rgpud/leases/sqlite_fault.h"
#include "util/fd.h"

namespace rgpu::serverd {
namespace {

constexpr int kVersion = 1;

// A lease's body is the JSON of the control API, secret included; what is asked for stands beside
// it.
constexpr char kSchema[] =
    "BEGIN;"
    "CREATE TABLE lease (id TEXT PRIMARY KEY, job TEXT NOT NULL, body TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE drain (gpu TEXT PRIMARY KEY, reason TEXT NOT NULL, since INTEGER NOT NULL) "
    "WITHOUT ROWID;"
    "PRAGMA user_version = 1;"
    "COMMIT;";

}  // namespace

// One statement, its parameters and its rows.
class SqliteStore::Statement {
public:
    Statement(SqliteStore &store, const char *sql) : store_(store)
    {
        sqlite3_prepare_v2(store.db_, sql, -1, &statement_, nullptr);
    }
    ~Statement() { sqlite3_finalize(statement_); }
    Statement(const Statement &) = delete;
    Statement &operator=(const Statement &) = delete;

    Statement &bind(const std::string &text)
    {
        sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()),
                          SQLITE_TRANSIENT);
        return *this;
    }
    Statement &bind(int64_t number)
    {
        sqlite3_bind_int64(statement_, ++bound_, number);
        return *this;
    }
    // True: there is a row.
    Result<bool> step(const char *doing)
    {
        int code = statement_ ? sqlite3_step(statement_) : SQLITE_ERROR;
        if (code == SQLITE_ROW || code == SQLITE_DONE) return code == SQLITE_ROW;
        return store_.failure(doing);
    }
    Result<void> run(const char *doing)
    {
        Result<bool> done = step(doing);
        return done ? Result<void>() : Result<void>(std::move(done).error());
    }
    std::string text(int column) const
    {
        auto *bytes = sqlite3_column_text(statement_, column);
        return bytes ? std::string(reinterpret_cast<const char *>(bytes),
                                   static_cast<size_t>(sqlite3_column_bytes(statement_, column)))
                     : "";
    }
    int64_t number(int column) const { return sqlite3_column_int64(statement_, column); }

private:
    SqliteStore &store_;
    sqlite3_stmt *statement_ = nullptr;
    int bound_ = 0;
};

Error SqliteStore::failure(const char *doing) const
{
    int code = db_ ? sqlite3_errcode(db_) & 0xff : SQLITE_CANTOPEN;
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
        return error(ErrorKind::unavailable,
                     "%s: another rgpud has it open; each needs its own [rgpud] state_dir",
                     path_.c_str());
    return error(code == SQLITE_FULL ? ErrorKind::exhausted : ErrorKind::internal, "%s: %s: %s",
                 path_.c_str(), doing, db_ ? sqlite3_errmsg(db_) : "out of memory");
}

Result<void> SqliteStore::execute(const char *sql)
{
    if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
    return failure("setting it up");
}

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
        return failure("opening it");
    sqlite3_extended_result_codes(db_, 1);
    return {};
}

Result<void> SqliteStore::set_up()
{
    // Exclusive before the first access: no shared memory file, and a second rgpud is refused.
    Result<void> done = execute(
        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
        "BEGIN IMMEDIATE; COMMIT;");
    if (!done) return done;
    int64_t version = 0;
    {
        Statement ask(*this, "PRAGMA user_version");
        Result<bool> row = ask.step("reading its version");
        if (!row) return std::move(row).error();
        version = ask.number(0);
    }
    if (version > kVersion)
        return error(
            ErrorKind::invalid,
            "%s is of a newer rgpud (version %lld, this one knows %d): install that one again",
            path_.c_str(), static_cast<long long>(version), kVersion);
    return version == 0 ? execute(kSchema) : Result<void>();
}

Result<void> SqliteStore::put(const pool::Lease &lease)
{
    return Statement(*this, "INSERT OR REPLACE INTO lease (id, job, body) VALUES (?, ?, ?)")
        .bind(lease.id)
        .bind(lease.owner.job)
        .bind(pool::encode(pool::Leases{0, {lease}}))
        .run("keeping a lease");
}

Result<void> SqliteStore::erase(const std::string &id)
{
    return Statement(*this, "DELETE FROM lease WHERE id = ?").bind(id).run("forgetting a lease");
}

Result<std::vector<pool::Lease>> SqliteStore::load()
{
    std::vector<pool::Lease> leases;
    Statement rows(*this, "SELECT id, body FROM lease ORDER BY id");
    for (;;) {
        Result<bool> row = rows.step("reading the leases");
        if (!row) return std::move(row).error();
        if (!*row) return leases;
        Result<pool::Leases> decoded = pool::decode_leases(rows.text(1));
        if (!decoded || decoded->leases.size() != 1)
            return error(ErrorKind::internal, "%s: lease %.8s cannot be read: %s", path_.c_str(),
                         rows.text(0).c_str(),
                         decoded ? "it is none" : decoded.error().text.c_str());
        leases.push_back(std::move(decoded->leases[0]));
    }
}

Result<void> SqliteStore::put(const pool::Drain &drain)
{
    return Statement(*this, "INSERT OR REPLACE INTO drain (gpu, reason, since) VALUES (?, ?, ?)")
        .bind(drain.gpu)
        .bind(drain.reason)
        .bind(drain.since)
        .run("keeping a drain");
}

Result<void> SqliteStore::erase_drain(const std::string &gpu)
{
    return Statement(*this, "DELETE FROM drain WHERE gpu = ?").bind(gpu).run("forgetting a drain");
}

Result<std::vector<pool::Drain>> SqliteStore::load_drains()
{
    std::vector<pool::Drain> drains;
    Statement rows(*this, "SELECT gpu, reason, since FROM drain ORDER BY gpu");
    for (;;) {
        Result<bool> row = rows.step("reading the drains");
        if (!row) return std::move(row).error();
        if (!*row) return drains;
        drains.push_back({rows.text(0), rows.text(1), rows.number(2)});
    }
}

}  // namespace rgpu::serverd
