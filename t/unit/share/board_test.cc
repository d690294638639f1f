// The board between processes: turns, and what killed ones leave behind.
#include "share/board.h"

#include <cstdio>
#include <criterion/criterion.h>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace rgpu;
using namespace rgpu::share;

namespace {

std::string path()
{
    return "/tmp/rgpu-board-test." + std::to_string(getpid());
}

struct File {
    std::string name = path();
    Fd fd;
    File()
    {
        auto opened = Board::file(name);
        cr_assert(opened.has_value(), "%s", opened.error().text.c_str());
        fd = std::move(*opened);
    }
    ~File() { unlink(name.c_str()); }
};

void pause_for(int64_t ns)
{
    timespec t = {ns / kSecond, ns % kSecond};
    nanosleep(&t, nullptr);
}

// What the processes of a test tell each other.
struct Common {
    std::atomic<int> running;   // whose kernel runs: its number + 1
    std::atomic<int> overlaps;
    std::atomic<int64_t> last;  // when the last kernel ended, or runs
    std::atomic<int64_t> kernels[8];
};

Common *common()
{
    void *p = mmap(nullptr, sizeof(Common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return static_cast<Common *>(p);
}

// A worker without a GPU: a launch is a sleep.
[[noreturn]] void be_worker(int fd, Common *c, int number, Terms terms, int64_t kernel)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto board = Board::map(fd);
    if (!board)
        _exit(2);
    auto place = board->sit("lease" + std::to_string(number), terms);
    if (!place)
        _exit(3);
    Seat &seat = board->seat(*place);
    for (uint64_t n = 0;; ++n) {
        seat.launches++;
        if (!board->may_launch(seat.tenant) || seat.completed == n) {
            seat.launches--;
            for (;;) {
                uint32_t call = board->call_of(*place);
                int64_t again = 0;
                if (board->ask(*place, clock_now(), again))
                    break;
                board->wait(*place, call, again);
            }
        }
        int nobody = 0;
        if (!c->running.compare_exchange_strong(nobody, number + 1))
            c->overlaps++;
        pause_for(kernel);
        c->last = clock_now();
        c->kernels[number]++;
        c->running = 0;
        seat.completed = n + 1;
        board->completed(*place, clock_now());
    }
}

pid_t start(int fd, Common *c, int number, Terms terms, int64_t kernel)
{
    pid_t pid = fork();
    if (pid == 0)
        be_worker(fd, c, number, terms, kernel);
    return pid;
}

void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
}

}  // namespace

Test(board, is_a_file_of_this_user_alone)
{
    File file;
    struct stat status;
    fstat(file.fd.get(), &status);
    cr_expect_eq(status.st_mode & 0777, 0600);
    auto again = Board::file(file.name);
    cr_expect(again.has_value(), "the one that is there is taken");
    chmod(file.name.c_str(), 0644);
    auto open_to_all = Board::file(file.name);
    cr_expect_not(open_to_all.has_value());
    unlink(file.name.c_str());
    cr_assert_eq(symlink("/etc/passwd", file.name.c_str()), 0);
    cr_expect_not(Board::file(file.name).has_value(), "a link is not followed");
}

Test(board, refuses_other_memory)
{
    int fd = memfd_create("other", 0);
    cr_expect_not(Board::map(fd).has_value());
    cr_assert_eq(ftruncate(fd, sizeof(Memory)), 0);
    cr_expect_not(Board::map(fd).has_value());
}

Test(board, one_tenant_at_a_time, .timeout = 60)
{
    File file;
    Common *c = common();
    pid_t a = start(file.fd.get(), c, 0, {50, 100, 100}, kMillisecond), b = start(file.fd.get(), c, 1, {50, 100, 100}, kMillisecond);
    for (int i = 0; i < 500 && (c->kernels[0] < 100 || c->kernels[1] < 100); ++i)
        pause_for(20 * kMillisecond);
    cr_expect(c->kernels[0] >= 100 && c->kernels[1] >= 100, "%ld and %ld", long(c->kernels[0]), long(c->kernels[1]));
    auto board = Board::map(file.fd.get());
    auto views = board->view(clock_now());
    cr_expect_eq(views.size(), 2);
    cr_expect_eq(c->overlaps, 0);  // before one is killed in a kernel, and the other goes on
    end(a);
    end(b);
    cr_expect_eq(board->workers(), 0, "their seats are free");
}

// 120 times: the one that has the token is killed; the other must get it, and soon.
Test(board, a_killed_worker_gives_the_token_back, .timeout = 120)
{
    File file;
    Common *c = common();
    pid_t other = start(file.fd.get(), c, 0, {50, 100, 100}, kMillisecond);
    int64_t worst = 0;
    for (int round = 0; round < 120; ++round) {
        pid_t victim = start(file.fd.get(), c, 1, {50, 100, 100}, 20 * kMillisecond);
        int64_t limit = clock_now() + 10 * kSecond;
        while (c->running != 2 && clock_now() < limit)
            pause_for(kMillisecond / 5);
        cr_assert_eq(c->running, 2, "round %d: the second never gets its turn", round);
        kill(victim, SIGKILL);
        int64_t killed = clock_now();
        waitpid(victim, nullptr, 0);
        c->running = 0;
        while (c->last < killed && clock_now() < killed + 10 * kSecond)
            pause_for(kMillisecond / 5);
        worst = std::max(worst, clock_now() - killed);
    }
    end(other);
    fprintf(stderr, "the longest wait after a kill: %.1f ms\n", static_cast<double>(worst) / kMillisecond);
    cr_expect(worst < 50 * kMillisecond, "%.1f ms", static_cast<double>(worst) / kMillisecond);
}

// Killed at any instruction, also while they change the board.
Test(board, survives_workers_that_are_killed_anywhere, .timeout = 120)
{
    File file;
    Common *c = common();
    pid_t other = start(file.fd.get(), c, 0, {40, 100, 100}, kMillisecond / 10);
    unsigned seed = 7;
    for (int round = 0; round < 100; ++round) {
        pid_t victims[3];
        for (int i = 0; i < 3; ++i)
            victims[i] = start(file.fd.get(), c, 1 + i, {20, 100, 100}, 10 * kMicrosecond);
        pause_for((1 + rand_r(&seed) % 20) * kMillisecond);
        for (pid_t victim : victims)
            end(victim);
        c->running = 0;
    }
    int64_t before = c->kernels[0];
    for (int i = 0; i < 500 && c->kernels[0] < before + 10; ++i)
        pause_for(10 * kMillisecond);
    cr_expect(c->kernels[0] >= before + 10, "the one that was left alone goes on");
    end(other);
    auto board = Board::map(file.fd.get());
    cr_expect_eq(board->workers(), 0);
}

Test(board, workers_of_one_lease_are_one_tenant, .timeout = 60)
{
    File file;
    auto board = Board::map(file.fd.get());
    auto first = board->sit("lease", {50, 100, 100}), second = board->sit("lease", {50, 100, 100});
    cr_assert(first.has_value() && second.has_value());
    cr_expect_eq(board->seat(*first).tenant, board->seat(*second).tenant);
    cr_expect(board->alone());
    int64_t again = 0;
    cr_expect(board->ask(*first, clock_now(), again));
    cr_expect(board->ask(*second, clock_now(), again), "both may launch at the same time");
    auto views = board->view(clock_now());
    cr_expect(views.size() == 1 && views[0].workers == 2);
}

// Its work has always ended when its end is seen.
Test(board, a_ceiling_holds_for_who_waits_for_each_kernel, .timeout = 60)
{
    File file;
    auto board = Board::map(file.fd.get());
    Common *c = common();
    pid_t worker = start(file.fd.get(), c, 0, {25, 25, 100}, 2 * kMillisecond);
    while (!c->kernels[0])
        pause_for(kMillisecond);
    const int64_t begin = clock_now();
    pause_for(2 * kSecond);
    auto views = board->view(clock_now());
    const double elapsed = static_cast<double>(clock_now() - begin) / kSecond;
    end(worker);
    cr_assert_eq(views.size(), 1);
    cr_expect(views[0].given_seconds > 0.02 && views[0].given_seconds < 0.25 * elapsed + 0.1, "%.3f s of %.3f",
              views[0].given_seconds, elapsed);
}

// What a worker did not live to write down is collected by others, and nothing twice.
Test(board, tells_given_time_once)
{
    File file;
    auto board = Board::map(file.fd.get());
    cr_assert(board.has_value());
    auto place = board->sit("mine", {});
    cr_assert(place.has_value());
    int64_t again = 0, fresh = 0;
    const int64_t begin = clock_now();
    cr_assert(board->ask(*place, begin, again));
    cr_expect(board->collect("", begin + 5 * kMillisecond).empty(), "its worker lives and counts itself");
    board->completed(*place, begin + 10 * kMillisecond, &fresh);
    cr_expect_eq(fresh, 10 * kMillisecond);
    board->completed(*place, begin + 30 * kMillisecond, &fresh);
    cr_expect_eq(fresh, 30 * kMillisecond, "added to what was there");
    cr_expect(board->collect("another", begin + 40 * kMillisecond).empty());
    auto left = board->collect("mine", begin + 50 * kMillisecond);
    cr_assert_eq(left.size(), 1u);
    cr_expect_eq(left[0].lease, "mine");
    cr_expect_eq(left[0].given, 20 * kMillisecond);
    cr_expect(board->collect("mine", begin + 50 * kMillisecond).empty(), "once");
}

// A waiting tenant under a ceiling waits for itself.
Test(board, knows_whether_a_ceiling_keeps_it_waiting)
{
    File file;
    auto board = Board::map(file.fd.get());
    auto other = Board::map(file.fd.get());
    cr_assert(board.has_value() && other.has_value());
    auto low = board->sit("low", {10, 10, 100});
    auto high = other->sit("high", {50, 100, 100});
    cr_assert(low.has_value() && high.has_value());
    int64_t again = 0, now = clock_now();
    cr_assert(board->ask(*low, now, again));
    now += kSecond;  // far more than its allowance
    board->seat(*low).completed = 1;
    board->completed(*low, now);
    cr_expect_not(board->ask(*low, now, again));
    cr_expect(board->at_ceiling(*low));
    cr_assert(other->ask(*high, now, again), "the GPU is free");
    cr_expect_not(board->ask(*low, now + kMillisecond, again));
    cr_expect(board->at_ceiling(*low), "still its own ceiling");
    now += 20 * kSecond;
    cr_expect_not(board->ask(*low, now, again));
    cr_expect_not(board->at_ceiling(*low), "by now it is the other who has the GPU");
}
