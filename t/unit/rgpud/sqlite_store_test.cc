// SPDX-License-Identifier: Apache-2.0
#include "rgpud/leases/sqlite_store.h"

#include <criterion/criterion.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "pool/ledger/ledger.h"

using namespace rgpu;
using namespace rgpu::pool;
using namespace rgpu::serverd;

static const Time kStart = Time(Milliseconds(1000000));
static const Caller kRoot{0, true};

struct Dir {
    std::string path = "/tmp/rgpu-store.XXXXXX";
    Dir() { cr_assert(mkdtemp(path.data())); }
    ~Dir() { std::filesystem::remove_all(path); }
    std::string file() const { return path + "/leases.db"; }
};

static std::vector<GpuState> gpus()
{
    std::vector<GpuState> gpus(4);
    for (int i = 0; i < 4; ++i) {
        gpus[static_cast<size_t>(i)].index = i;
        gpus[static_cast<size_t>(i)].uuid = "GPU-" + std::to_string(i);
        gpus[static_cast<size_t>(i)].memory = 1000;
    }
    return gpus;
}

// What is written by a day's work: leases of several sizes, renewed, released, expired; drains.
using Step = std::function<bool(Ledger &, Time)>;

static Step take(const char *job, int count, int share, Milliseconds term = Milliseconds(0))
{
    return [=](Ledger &ledger, Time now) {
        Request request;
        request.gpus = count;
        request.share = share;
        request.term = term;
        request.owner.job = job;
        request.owner.node = "cn1";
        auto offer = ledger.offer(kRoot, request, now);
        return offer && offer->answer == Answer::now && ledger.accept(kRoot, offer->id, now);
    };
}

static Step end(const char *job)
{
    return [=](Ledger &ledger, Time now) {
        auto ended = ledger.release_job(kRoot, {job, "", false}, now);
        return ended && ended->size() == 1;
    };
}

static const std::vector<Step> &steps()
{
    static const std::vector<Step> all = {
        take("1", 2, 100),
        take("2", 1, 50),
        [](Ledger &l, Time) {
            return l.drain({"GPU-3", "fan", 7}).has_value();
        },
        take("3", 1, 50, Milliseconds(5000)),
        end("1"),
        take("4", 1, 100),
        [](Ledger &l, Time) {
            return l.drain({"", "moves", 8}).has_value();
        },
        end("2"),
        [](Ledger &l, Time) { return l.resume("").has_value(); },
        [](Ledger &l, Time now) { return l.expire(now + Milliseconds(6000)).size() == 1; },
        take("5", 2, 30),
        end("4"),
        [](Ledger &l, Time) { return l.resume("GPU-3").has_value(); },
        take("6", 4, 10),
        end("5"),
    };
    return all;
}

// Everything that must outlive rgpud, as text.
static std::string state(Ledger &ledger, Time now)
{
    std::string text;
    std::vector<std::string> leases;
    for (const Lease &lease : ledger.leases(kRoot, {}, now)) {
        leases.push_back(lease.owner.job + ":");
        for (const Portion &gpu : lease.gpus)
            leases.back() += " " + gpu.uuid + "/" + std::to_string(gpu.share) + "/" +
                             std::to_string(gpu.memory);
    }
    std::sort(leases.begin(), leases.end());
    for (const std::string &lease : leases) text += lease + "\n";
    for (const GpuState &gpu : ledger.gpus())
        text += std::to_string(gpu.free_share) + " " + std::to_string(gpu.free_memory) + " " +
                gpu.drained + "\n";
    return text;
}

static std::string model_after(size_t count)
{
    VolatileStore store;
    Ledger ledger(gpus(), store, {});
    for (size_t i = 0; i < count; ++i) cr_assert(steps()[i](ledger, kStart), "step %zu", i);
    return state(ledger, kStart);
}

static std::string restored(const std::string &file)
{
    auto store = SqliteStore::open(file);
    cr_assert(store.has_value(), "%s", store ? "" : store.error().text.c_str());
    Ledger ledger(gpus(), **store, {});
    auto loaded = ledger.load(kStart);
    cr_assert(loaded.has_value(), "%s", loaded ? "" : loaded.error().text.c_str());
    return state(ledger, kStart);
}

// Runs `work` in a process that is killed at the given write. Returns whether it was.
static bool killed_at(const std::string &fault, const std::function<void()> &work)
{
    pid_t pid = fork();
    if (pid == 0) {
        setenv("RGPU_TEST_KILL_AT_WRITE", fault.c_str(), 1);
        work();
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    cr_assert(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0,
              "status %x", status);
    return WIFSIGNALED(status);
}

static void work(const std::string &file, int answers)
{
    auto store = SqliteStore::open(file);
    if (!store) _exit(9);
    Ledger ledger(gpus(), **store, {});
    if (!ledger.load(kStart)) _exit(8);
    for (const Step &step : steps()) {
        if (!step(ledger, kStart)) _exit(7);
        if (write(answers, "x", 1) != 1) _exit(6);
    }
    store->reset();  // SQLite's checkpoint writes, too
}

static size_t crash_at_each_write(const char *how)
{
    std::vector<std::string> models;
    for (size_t i = 0; i <= steps().size(); ++i) models.push_back(model_after(i));
    for (size_t n = 1;; ++n) {
        Dir dir;
        int ends[2];
        cr_assert_eq(pipe(ends), 0);
        bool killed = killed_at(std::to_string(n) + how, [&] { work(dir.file(), ends[1]); });
        close(ends[1]);
        char bytes[100];
        ssize_t got = read(ends[0], bytes, sizeof bytes);
        close(ends[0]);
        size_t answered = got > 0 ? static_cast<size_t>(got) : 0;
        // The next rgpud is killed, too, while it opens the file.
        for (const char *again : {"1", "2:torn", "4"})
            killed_at(again, [&] { (void)SqliteStore::open(dir.file()).has_value(); });
        std::string now = restored(dir.file());
        cr_assert(now == models[answered] ||
                      (answered < steps().size() && now == models[answered + 1]),
                  "write %zu%s, %zu answered: got\n%swanted\n%s", n, how, answered, now.c_str(),
                  models[answered].c_str());
        if (!killed) {
            cr_assert_eq(answered, steps().size());
            return n - 1;
        }
    }
}

Test(sqlite_store, killed_at_each_write_the_state_is_that_of_what_was_answered)
{
    size_t writes = crash_at_each_write("");
    cr_assert_geq(writes, 2 * steps().size(), "%zu writes", writes);
    cr_log_info("%zu writes", writes);
}

Test(sqlite_store, and_when_each_write_is_torn)
{
    cr_assert_geq(crash_at_each_write(":torn"), 2 * steps().size());
}

Test(sqlite_store, a_second_rgpud_is_refused_in_words)
{
    Dir dir;
    auto first = SqliteStore::open(dir.file());
    cr_assert(first.has_value());
    bool refused = false;
    // SQLite's locks are the process's: another process it must be.
    pid_t pid = fork();
    if (pid == 0) {
        auto second = SqliteStore::open(dir.file());
        _exit(!second && second.error().kind == ErrorKind::unavailable &&
                      second.error().text.find("another rgpud") != std::string::npos
                  ? 0
                  : 1);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    refused = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    cr_assert(refused);
}

Test(sqlite_store, secrets_are_kept_for_nobody_else)
{
    Dir dir;
    auto store = SqliteStore::open(dir.file());
    cr_assert(store.has_value());
    Lease lease;
    lease.id = random_id();
    lease.secret = random_secret();
    lease.owner.host = "h";
    lease.gpus.push_back({0, "GPU-0", "none", 100, 10});
    cr_assert((*store)->put(lease).has_value());
    auto loaded = (*store)->load();
    cr_assert(loaded.has_value());
    cr_assert_eq(loaded->size(), 1u);
    cr_assert(loaded->at(0).secret == lease.secret);
    for (auto &entry : std::filesystem::directory_iterator(dir.path)) {
        struct stat state;
        cr_assert_eq(stat(entry.path().c_str(), &state), 0);
        cr_assert_eq(state.st_mode & 077, 0, "%s", entry.path().c_str());
    }
}

Test(sqlite_store, what_is_no_database_is_an_error_with_its_name)
{
    Dir dir;
    FILE *file = fopen(dir.file().c_str(), "w");
    for (int i = 0; i < 100; ++i) fputs("this is not what SQLite writes", file);
    fclose(file);
    auto store = SqliteStore::open(dir.file());
    cr_assert_not(store.has_value());
    cr_assert(store.error().text.find(dir.file()) != std::string::npos);
}

// --- tables of older rgpuds

// As rgpud wrote it before the tables had columns of their own.
static void version_1(const std::string &file, const std::vector<std::string> &bodies)
{
    sqlite3 *db = nullptr;
    cr_assert_eq(sqlite3_open(file.c_str(), &db), SQLITE_OK);
    std::string sql =
        "PRAGMA journal_mode = WAL;"
        "CREATE TABLE lease (id TEXT PRIMARY KEY, job TEXT NOT NULL, body TEXT NOT NULL)"
        " WITHOUT ROWID;"
        "CREATE TABLE drain (gpu TEXT PRIMARY KEY, reason TEXT NOT NULL, since INTEGER NOT NULL)"
        " WITHOUT ROWID;"
        "INSERT INTO drain VALUES ('GPU-3', 'fan', 7);"
        "PRAGMA user_version = 1;";
    for (size_t i = 0; i < bodies.size(); ++i)
        sql += "INSERT INTO lease VALUES ('" + std::to_string(i) + "', '', '" + bodies[i] + "');";
    cr_assert_eq(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(db);
}

static int64_t version_of(const std::string &file)
{
    sqlite3 *db = nullptr;
    sqlite3_stmt *statement = nullptr;
    cr_assert_eq(sqlite3_open(file.c_str(), &db), SQLITE_OK);
    sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &statement, nullptr);
    cr_assert_eq(sqlite3_step(statement), SQLITE_ROW);
    const int64_t version = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return version;
}

// A job's lease with all that it may have, and one of a process with no more than it needs.
static const std::vector<std::string> kBodies = {
    R"({"data_port":0,"leases":[{"boot":"b00t","expires_in_ms":4000,"gpus":[)"
    R"({"index":1,"memory":25769803776,"most":80,"name":"NVIDIA A100","share":30,"uuid":"GPU-1"},)"
    R"({"index":2,"memory":1000,"most":100,"name":"N","share":100,"uuid":"GPU-2"}],)"
    R"("granted_at":1700000000,"id":"0","owner":{"job":"17","node":"cn1","qos":"high","run":2,)"
    R"("uid":1001,"user":"alice"},"secret":"00ff10","span":{"gpus":3,"id":"5pan"},)"
    R"("term_ms":5000,"workers":1}]})",
    R"({"data_port":0,"leases":[{"expires_in_ms":0,"gpus":[)"
    R"({"index":0,"memory":5,"name":"N","share":50,"uuid":"GPU-0"}],"granted_at":7,"id":"1",)"
    R"("owner":{"host":"login1","pid":4242,"uid":0,"user":""},"secret":"aa","term_ms":0,)"
    R"("workers":0}]})"};

static void check_version_1(const std::string &file)
{
    auto store = SqliteStore::open(file);
    cr_assert(store.has_value(), "%s", store ? "" : store.error().text.c_str());
    auto leases = (*store)->load();
    cr_assert(leases && leases->size() == 2);
    const Lease &a = leases->at(0), &b = leases->at(1);
    cr_expect(a.id == "0" && a.secret == std::string("\0\xff\x10", 3) && a.boot == "b00t");
    cr_expect(a.owner.job == "17" && a.owner.node == "cn1" && a.owner.qos == "high");
    cr_expect(a.owner.run == 2 && a.owner.uid == 1001 && a.owner.user == "alice");
    cr_expect(a.term == Milliseconds(5000) && a.granted_at == 1700000000);
    cr_expect(a.span.id == "5pan" && a.span.gpus == 3);
    cr_assert_eq(a.gpus.size(), 2u);
    cr_expect(a.gpus[0].index == 1 && a.gpus[0].uuid == "GPU-1" && a.gpus[0].share == 30);
    cr_expect(a.gpus[0].most == 80 && a.gpus[0].memory == 25769803776u);
    cr_expect(a.gpus[0].name == "NVIDIA A100" && a.gpus[1].uuid == "GPU-2");
    cr_expect(b.id == "1" && b.secret == "\xaa" && b.owner.host == "login1");
    cr_expect(b.owner.pid == 4242 && b.owner.run == -1 && b.owner.job.empty());
    cr_expect(b.span.id.empty() && b.boot.empty() && b.term.count() == 0);
    cr_assert_eq(b.gpus.size(), 1u);
    cr_expect(b.gpus[0].share == 50 && b.gpus[0].most == 50);
    auto drains = (*store)->load_drains();
    cr_assert(drains && drains->size() == 1);
    cr_expect(drains->at(0).gpu == "GPU-3" && drains->at(0).reason == "fan");
}

Test(sqlite_store, an_older_rgpud_s_tables_are_brought_up_to_date)
{
    Dir dir;
    version_1(dir.file(), kBodies);
    check_version_1(dir.file());
    cr_expect_eq(version_of(dir.file()), 3);
    check_version_1(dir.file());
}

Test(sqlite_store, tables_without_accounts_get_them)
{
    Dir dir;
    version_1(dir.file(), kBodies);
    cr_assert(SqliteStore::open(dir.file()).has_value());
    sqlite3 *db = nullptr;
    cr_assert_eq(sqlite3_open(dir.file().c_str(), &db), SQLITE_OK);
    // As version 2 was.
    cr_assert_eq(sqlite3_exec(db, "ALTER TABLE lease DROP COLUMN account; PRAGMA user_version = 2;",
                              nullptr, nullptr, nullptr),
                 SQLITE_OK);
    sqlite3_close(db);
    check_version_1(dir.file());
    cr_expect_eq(version_of(dir.file()), 3);
    auto leases = (*SqliteStore::open(dir.file()))->load();
    cr_assert(leases.has_value());
    cr_expect(leases->at(0).owner.account.empty());
}

Test(sqlite_store, killed_at_each_write_of_that_they_are_the_old_ones_or_the_new)
{
    size_t n = 1;
    for (bool killed = true; killed; ++n)
        for (const char *how : {"", ":torn"}) {
            Dir dir;
            version_1(dir.file(), kBodies);
            killed = killed_at(std::to_string(n) + how, [&] {
                if (!SqliteStore::open(dir.file())) _exit(9);
            });
            check_version_1(dir.file());
        }
    cr_assert_gt(n, 5u, "%zu writes", n);
}

Test(sqlite_store, an_old_lease_that_cannot_be_read_is_named_and_stays)
{
    for (const char *body :
         {"", "{", "{\"leases\":[]}", "{\"leases\":[{\"id\":\"0\",\"secret\":\"00\"}]}",
          "{\"leases\":[{\"id\":\"0\",\"secret\":\"xx\",\"owner\":{},\"gpus\":[]}]}",
          "{\"leases\":[{\"id\":\"0\",\"secret\":\"00\",\"owner\":{},\"gpus\":[{}]}]}"}) {
        Dir dir;
        version_1(dir.file(), {body});
        auto store = SqliteStore::open(dir.file());
        cr_assert_not(store.has_value(), "%s", body);
        cr_expect(store.error().text.find(dir.file()) == 0);
        cr_expect(store.error().text.find("lease 0 of an older rgpud") != std::string::npos, "%s",
                  store.error().text.c_str());
        cr_expect_eq(version_of(dir.file()), 1);
    }
}

Test(sqlite_store, a_newer_rgpud_s_tables_are_left_alone)
{
    Dir dir;
    cr_assert(SqliteStore::open(dir.file()).has_value());
    sqlite3 *db = nullptr;
    cr_assert_eq(sqlite3_open(dir.file().c_str(), &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, "PRAGMA user_version = 4", nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(db);
    auto store = SqliteStore::open(dir.file());
    cr_assert_not(store.has_value());
    cr_expect(store.error().kind == ErrorKind::invalid);
    cr_expect(store.error().text.find("newer rgpud (version 4") != std::string::npos);
}

Test(sqlite_store, every_field_of_a_lease_survives)
{
    Dir dir;
    Lease lease;
    lease.id = random_id();
    lease.secret = random_secret();
    lease.owner = {1001, "alice", "17", "cn1", "high", 2, "h", 4242, "physics"};
    lease.gpus = {{3, "GPU-3", "a name", 30, uint64_t{80} << 30, 80},
                  {1, "GPU-1", "b", 100, 7, 100}};
    lease.term = Milliseconds(60000);
    lease.granted_at = 1700000000;
    lease.boot = "b00t";
    lease.span = {"5pan", 3};
    for (int times = 0; times < 2; ++times) {
        auto store = SqliteStore::open(dir.file());
        cr_assert(store && (*store)->put(lease));
    }
    auto store = SqliteStore::open(dir.file());
    auto leases = (*store)->load();
    cr_assert(leases && leases->size() == 1);
    const Lease &back = leases->at(0);
    cr_expect(back.id == lease.id && back.secret == lease.secret && back.boot == lease.boot);
    cr_expect(back.owner.uid == 1001 && back.owner.user == "alice" && back.owner.job == "17");
    cr_expect(back.owner.node == "cn1" && back.owner.qos == "high" && back.owner.run == 2);
    cr_expect(back.owner.host == "h" && back.owner.pid == 4242);
    cr_expect_str_eq(back.owner.account.c_str(), "physics");
    cr_expect(back.term == lease.term && back.granted_at == lease.granted_at);
    cr_expect(back.span.id == "5pan" && back.span.gpus == 3);
    cr_assert_eq(back.gpus.size(), 2u);
    cr_expect(back.gpus[0].index == 3 && back.gpus[0].uuid == "GPU-3" && back.gpus[0].most == 80);
    cr_expect(back.gpus[0].memory == uint64_t{80} << 30 && back.gpus[0].share == 30);
    cr_expect(back.gpus[0].name == "a name" && back.gpus[1].uuid == "GPU-1");
    cr_assert((*store)->erase(lease.id));
    leases = (*store)->load();
    cr_expect(leases && leases->empty());
}
