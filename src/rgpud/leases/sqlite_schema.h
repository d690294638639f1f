// SPDX-License-Identifier: Apache-2.0
// The tables of rgpud's database, and how those of older rgpuds become them.
//
// The tables are the disk's own: they hold what a lease needs to survive rgpud, and a change of the
// control API does not touch them. A change of a table makes a new version (PRAGMA user_version)
// and a step from the one before it.
//
//   1   table lease: id, job, and the lease as the control API's JSON of then
//   2   tables lease and lease_gpu: a column each
#pragma once

#include "pool/messages/messages.h"
#include "util/result.h"

struct sqlite3;

namespace rgpu::serverd {

inline constexpr int kSchemaVersion = 3;

// Makes the tables, or brings those of an older version up to date: one transaction, so that a
// crash leaves the old version. Fails with `invalid` where the file is of a newer rgpud, with
// `internal` where an old row cannot be read; the file is as it was then.
Result<void> bring_up_to_date(sqlite3 *db);

// Within the caller's transaction: the lease's rows in place of those that it had.
Result<void> put_lease(sqlite3 *db, const pool::Lease &lease);

}  // namespace rgpu::serverd
