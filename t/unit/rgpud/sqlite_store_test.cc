#include "rgpud/leases/sqlite_store.h"

#include <criterion/criterion.h>
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
