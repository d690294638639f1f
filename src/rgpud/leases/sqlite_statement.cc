// SPDX-License-Identifier: Apache-2.0
#include "rgpud/leases/sqlite_statement.h"

#include <sqlite3.h>

namespace rgpu::serverd {

Error sqlite_failure(sqlite3 *db, const char *doing)
{
    int code = db ? sqlite3_errcode(db) & 0xff : SQLITE_CANTOPEN;
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
        return error(ErrorKind::unavailable,
                     "another rgpud has it open; each needs its own [rgpud] state_dir");
    return error(code == SQLITE_FULL ? ErrorKind::exhausted : ErrorKind::internal, "%s: %s", doing,
                 db ? sqlite3_errmsg(db) : "out of memory");
}

Result<void> sqlite_execute(sqlite3 *db, const char *sql, const char *doing)
{
    if (sqlite3_exec(db, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
    return sqlite_failure(db, doing);
}

SqliteStatement::SqliteStatement(sqlite3 *db, const char *sql) : db_(db)
{
    sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr);
}

SqliteStatement::~SqliteStatement() { sqlite3_finalize(statement_); }

SqliteStatement &SqliteStatement::bind(const std::string &text)
{
    sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()),
                      SQLITE_TRANSIENT);
    return *this;
}

SqliteStatement &SqliteStatement::bind(int64_t number)
{
    sqlite3_bind_int64(statement_, ++bound_, number);
    return *this;
}

SqliteStatement &SqliteStatement::bind_blob(const std::string &bytes)
{
    sqlite3_bind_blob(statement_, ++bound_, bytes.data(), static_cast<int>(bytes.size()),
                      SQLITE_TRANSIENT);
    return *this;
}

Result<bool> SqliteStatement::step(const char *doing)
{
    int code = statement_ ? sqlite3_step(statement_) : SQLITE_ERROR;
    if (code == SQLITE_ROW || code == SQLITE_DONE) return code == SQLITE_ROW;
    return sqlite_failure(db_, doing);
}

Result<void> SqliteStatement::run(const char *doing)
{
    Result<bool> done = step(doing);
    return done ? Result<void>() : Result<void>(std::move(done).error());
}

void SqliteStatement::reset()
{
    sqlite3_reset(statement_);
    bound_ = 0;
}

std::string SqliteStatement::text(int column) const
{
    auto *bytes = static_cast<const char *>(sqlite3_column_blob(statement_, column));
    auto size = static_cast<size_t>(sqlite3_column_bytes(statement_, column));
    return bytes ? std::string(bytes, size) : "";
}

int64_t SqliteStatement::number(int column) const
{
    return sqlite3_column_int64(statement_, column);
}

}  // namespace rgpu::serverd
