// SPDX-License-Identifier: Apache-2.0
#include "rgpud/leases/sqlite_schema.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "rgpud/leases/sqlite_statement.h"
#include "util/json_reader.h"
#include "util/sha256.h"

namespace rgpu::serverd {
namespace {

// The number of a GPU is its index on the server; its place is that in the lease.
constexpr char kTables[] =
    "CREATE TABLE lease (id TEXT PRIMARY KEY, secret BLOB NOT NULL, uid INTEGER NOT NULL,"
    " user TEXT NOT NULL, job TEXT NOT NULL, node TEXT NOT NULL, qos TEXT NOT NULL,"
    " run INTEGER NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL, term_ms INTEGER NOT NULL,"
    " granted_at INTEGER NOT NULL, boot TEXT NOT NULL, span TEXT NOT NULL,"
    " span_gpus INTEGER NOT NULL, account TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE lease_gpu (lease TEXT NOT NULL, place INTEGER NOT NULL, number INTEGER NOT NULL,"
    " uuid TEXT NOT NULL, name TEXT NOT NULL, share INTEGER NOT NULL, most INTEGER NOT NULL,"
    " memory INTEGER NOT NULL, PRIMARY KEY (lease, place)) WITHOUT ROWID;";
constexpr char kDrains[] =
    "CREATE TABLE drain (gpu TEXT PRIMARY KEY, reason TEXT NOT NULL, since INTEGER NOT NULL)"
    " WITHOUT ROWID;";

// --- version 1: a lease's body is {"data_port": 0, "leases": [...]}, as the control API had it

int64_t whole(const Json &json, const char *name, int64_t otherwise = 0)
{
    const Json *value = json.get(name);
    const double *number = value ? value->number() : nullptr;
    return number && std::abs(*number) < 9e15 ? static_cast<int64_t>(*number) : otherwise;
}

pool::Owner owner_of_version_1(const Json &json)
{
    pool::Owner owner;
    owner.uid = static_cast<uint32_t>(whole(json, "uid"));
    owner.user = json.text("user");
    owner.job = json.text("job");
    owner.node = json.text("node");
    owner.qos = json.text("qos");
    owner.run = static_cast<int>(whole(json, "run", -1));
    owner.host = json.text("host");
    owner.pid = static_cast<uint32_t>(whole(json, "pid"));
    return owner;
}

pool::Portion gpu_of_version_1(const Json &json)
{
    pool::Portion gpu;
    gpu.index = static_cast<int>(whole(json, "index"));
    gpu.uuid = json.text("uuid");
    gpu.name = json.text("name");
    gpu.share = static_cast<int>(whole(json, "share"));
    gpu.most = static_cast<int>(whole(json, "most", std::max(1, gpu.share)));
    gpu.memory = static_cast<uint64_t>(whole(json, "memory"));
    return gpu;
}

Result<pool::Lease> lease_of_version_1(const std::string &body)
{
    auto json = Json::parse(body);
    if (!json) return std::move(json).error();
    const Json *all = json->get("leases");
    const Json *owner = nullptr, *gpus = nullptr;
    if (all && all->array() && all->array()->size() == 1) {
        owner = all->array()->front().get("owner");
        gpus = all->array()->front().get("gpus");
    }
    if (!owner || !owner->object() || !gpus || !gpus->array())
        return Error{ErrorKind::internal, "it is none"};
    const Json &one = all->array()->front();
    pool::Lease lease;
    lease.id = one.text("id");
    if (lease.id.empty() || !from_hex(one.text("secret"), lease.secret))
        return Error{ErrorKind::internal, "its id or its secret is none"};
    lease.owner = owner_of_version_1(*owner);
    for (const Json &gpu : *gpus->array()) {
        lease.gpus.push_back(gpu_of_version_1(gpu));
        if (lease.gpus.back().uuid.empty())
            return Error{ErrorKind::internal, "a GPU of it has no UUID"};
    }
    lease.term = Milliseconds(whole(one, "term_ms"));
    lease.granted_at = whole(one, "granted_at");
    lease.boot = one.text("boot");
    if (const Json *span = one.get("span"))
        lease.span = {span->text("id"), static_cast<int>(whole(*span, "gpus"))};
    return lease;
}

Result<void> from_version_1(sqlite3 *db)
{
    constexpr const char *kDoing = "reading the leases of an older rgpud";
    auto renamed = sqlite_execute(db, "ALTER TABLE lease RENAME TO lease_of_version_1;", kDoing);
    if (renamed) renamed = sqlite_execute(db, kTables, kDoing);
    if (!renamed) return renamed;
    {
        SqliteStatement rows(db, "SELECT id, body FROM lease_of_version_1 ORDER BY id");
        for (;;) {
            Result<bool> row = rows.step(kDoing);
            if (!row) return std::move(row).error();
            if (!*row) break;
            Result<pool::Lease> lease = lease_of_version_1(rows.text(1));
            if (!lease)
                return error(ErrorKind::internal, "lease %.8s of an older rgpud cannot be read: %s",
                             rows.text(0).c_str(), lease.error().text.c_str());
            if (auto put = put_lease(db, *lease); !put) return put;
        }
    }
    return sqlite_execute(db, "DROP TABLE lease_of_version_1;", kDoing);
}

Result<void> make_or_change(sqlite3 *db, int64_t version)
{
    Result<void> done;
    if (version == 0) {
        done = sqlite_execute(db, kTables, "making its tables");
        if (done) done = sqlite_execute(db, kDrains, "making its tables");
    }
    if (version == 1) done = from_version_1(db);
    if (version == 2)
        done = sqlite_execute(db, "ALTER TABLE lease ADD COLUMN account TEXT NOT NULL DEFAULT '';",
                              "changing its tables");
    if (done)
        done = sqlite_execute(db,
                              ("PRAGMA user_version = " + std::to_string(kSchemaVersion)).c_str(),
                              "noting its version");
    return done;
}

}  // namespace

Result<void> bring_up_to_date(sqlite3 *db)
{
    int64_t version = 0;
    {
        SqliteStatement ask(db, "PRAGMA user_version");
        Result<bool> row = ask.step("reading its version");
        if (!row) return std::move(row).error();
        version = ask.number(0);
    }
    if (version > kSchemaVersion)
        return error(
            ErrorKind::invalid,
            "it is of a newer rgpud (version %lld, this one knows %d): install that one again",
            static_cast<long long>(version), kSchemaVersion);
    if (version == kSchemaVersion) return {};
    Result<void> done = sqlite_execute(db, "BEGIN IMMEDIATE", "changing its tables");
    if (!done) return done;
    done = make_or_change(db, version);
    if (done) done = sqlite_execute(db, "COMMIT", "changing its tables");
    if (!done) (void)sqlite_execute(db, "ROLLBACK", "leaving its tables").has_value();
    return done;
}

Result<void> put_lease(sqlite3 *db, const pool::Lease &lease)
{
    constexpr const char *kDoing = "keeping a lease";
    auto done = SqliteStatement(db,
                                "INSERT OR REPLACE INTO lease (id, secret, uid, user, job, node, "
                                "qos, run, host, pid, term_ms, granted_at, boot, span, span_gpus, "
                                "account) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
                    .bind(lease.id)
                    .bind_blob(lease.secret)
                    .bind(lease.owner.uid)
                    .bind(lease.owner.user)
                    .bind(lease.owner.job)
                    .bind(lease.owner.node)
                    .bind(lease.owner.qos)
                    .bind(lease.owner.run)
                    .bind(lease.owner.host)
                    .bind(lease.owner.pid)
                    .bind(lease.term.count())
                    .bind(lease.granted_at)
                    .bind(lease.boot)
                    .bind(lease.span.id)
                    .bind(lease.span.gpus)
                    .bind(lease.owner.account)
                    .run(kDoing);
    if (done)
        done =
            SqliteStatement(db, "DELETE FROM lease_gpu WHERE lease = ?").bind(lease.id).run(kDoing);
    SqliteStatement gpu(db, "INSERT INTO lease_gpu (lease, place, number, uuid, name, share, most, "
                            "memory) VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
    for (size_t i = 0; done && i < lease.gpus.size(); ++i) {
        const pool::Portion &of = lease.gpus[i];
        gpu.reset();
        done = gpu.bind(lease.id)
                   .bind(static_cast<int64_t>(i))
                   .bind(of.index)
                   .bind(of.uuid)
                   .bind(of.name)
                   .bind(of.share)
                   .bind(of.most)
                   .bind(static_cast<int64_t>(of.memory))
                   .run(kDoing);
    }
    return done;
}

}  // namespace rgpu::serverd
