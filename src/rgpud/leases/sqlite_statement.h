// SPDX-License-Identifier: Apache-2.0
// One SQL statement: its parameters and its rows.
#pragma once

#include <cstdint>
#include <string>

#include "util/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace rgpu::serverd {

// What the last call on `db` failed with, while `doing` something: `unavailable` where another
// process has the file, `exhausted` where the disk is full.
Error sqlite_failure(sqlite3 *db, const char *doing);

// Runs statements without parameters, one after the other.
Result<void> sqlite_execute(sqlite3 *db, const char *sql, const char *doing);

// The connection must outlive it; one thread at a time.
class SqliteStatement {
public:
    SqliteStatement(sqlite3 *db, const char *sql);
    ~SqliteStatement();
    SqliteStatement(const SqliteStatement &) = delete;
    SqliteStatement &operator=(const SqliteStatement &) = delete;

    // The next parameter.
    SqliteStatement &bind(const std::string &text);
    SqliteStatement &bind(int64_t number);
    SqliteStatement &bind_blob(const std::string &bytes);

    // True: there is a row.
    Result<bool> step(const char *doing);
    // For one without rows.
    Result<void> run(const char *doing);
    // May be bound and run again.
    void reset();

    // The columns of the row, from 0. Bytes of a text or a blob.
    std::string text(int column) const;
    int64_t number(int column) const;

private:
    sqlite3 *db_;
    sqlite3_stmt *statement_ = nullptr;
    int bound_ = 0;
};

}  // namespace rgpu::serverd
