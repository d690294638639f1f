// SPDX-License-Identifier: Apache-2.0
// The board with its workers' places: turns, and what broken or hostile workers leave behind.
#include "share/board.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>

#include "share/seat.h"
#include "util/packet.h"

using namespace rgpu;
using namespace rgpu::share;

namespace {

// A worker, at a board whose clock is the test's.
struct Worker {
    Ends opened = std::move(*open_ends());
    uint64_t number;
    TenantEnd place;

    Worker(Board &board, const std::string &lease, Terms terms = {50, 100, 100})
    {
        Result<uint64_t> open = board.open(lease, terms, std::move(opened.desk));
        cr_assert(open.has_value());
        number = *open;
        Result<TenantEnd> taken = take_tenant_end(opened.socket.get());
        cr_assert(taken.has_value(), "%s", taken.error().text.c_str());
        place = std::move(*taken);
        place.told->seated = 1;
    }
    Told &told() { return *place.told; }
    bool mine() const { return (place.says->token & (kMine | kClosing)) == kMine; }
    // As Seat does.
    void begin(int64_t now)
    {
        told().waiting = 0;
        told().launches++;
        if (told().work & 1) return;
        told().bursts++;
        told().work = work_word(true, static_cast<uint64_t>(now) - (told().work >> 1));
    }
    void end(int64_t now)
    {
        told().completed = told().launches.load();
        told().work = work_word(false, work_at(told().work, now));
    }
};

int64_t given(std::vector<Given> all, const std::string &lease)
{
    for (const Given &one : all)
        if (one.lease == lease) return one.nanoseconds;
    return 0;
}

}  // namespace

Test(board, one_tenant_at_a_time_and_each_its_share)
{
    int64_t now = 1000 * kSecond;
    Board board(now);
    Worker a(board, "a", {25, 100, 100}), b(board, "b", {75, 100, 100});
    a.told().waiting = b.told().waiting = 1;
    int64_t worked[2] = {};
    Worker *workers[] = {&a, &b};
    for (int i = 0; i < 20000; ++i, now += kMillisecond / 2) {
        board.look(now);
        cr_assert_not(a.mine() && b.mine());
        for (int w = 0; w < 2; ++w) {
            Worker &one = *workers[w];
            if (one.mine()) {
                one.begin(now);
                worked[w]++;
            } else if (one.told().work & 1) {
                one.end(now);
                one.told().waiting = 1;
            }
        }
    }
    const double part = static_cast<double>(worked[0]) / static_cast<double>(worked[0] + worked[1]);
    cr_expect(part > 0.23 && part < 0.27, "%.3f", part);
    cr_expect_gt(worked[0] + worked[1], 19000);
}

Test(board, a_worker_that_has_gone_gives_the_token_back)
{
    int64_t now = 1000 * kSecond;
    Board board(now);
    Worker a(board, "a"), b(board, "b");
    a.told().waiting = 1;
    board.look(now);
    cr_assert(a.mine());
    a.begin(now);
    b.told().waiting = 1;
    board.look(now += kMillisecond);
    cr_expect_not(b.mine());
    board.close(a.number, now += kMillisecond);
    board.look(now);
    cr_expect(b.mine());
    cr_expect_eq(board.workers(), 1u);
}

Test(board, workers_of_one_lease_are_one_tenant)
{
    int64_t now = 1000 * kSecond;
    Board board(now);
    Worker a(board, "lease"), b(board, "lease");
    a.told().waiting = 1;
    board.look(now);
    cr_expect(a.mine() && b.mine(), "both may launch at the same time");
    cr_expect_eq(a.place.says->alone, 1u);
    auto views = board.view(now);
    cr_assert(views.size() == 1 && views[0].workers == 2);
}

Test(board, who_only_waits_in_reserve_is_no_tenant)
{
    int64_t now = 1000 * kSecond;
    Board board(now);
    Worker a(board, "a"), b(board, "b");
    b.told().seated = 0;
    board.look(now);
    cr_expect_eq(a.place.says->alone, 1u);
    cr_expect_eq(board.view(now).size(), 1u);
    b.told().seated = 1;
    board.look(now);
    cr_expect_eq(a.place.says->alone, 0u);
}

// Its work has always ended when its end is seen.
Test(board, a_ceiling_holds_for_who_waits_for_each_kernel)
{
    int64_t now = 1000 * kSecond;
    Board board(now);
    Worker a(board, "a", {25, 25, 100});
    a.told().waiting = 1;
    int64_t again = 0, begun = 0;
    for (int i = 0; i < 20000; ++i, now += 100 * kMicrosecond) {
        if (now >= again) again = board.look(now);
        if (a.told().work & 1) {
            if (now - begun >= 2 * kMillisecond) {
                a.end(now);
                again = 0;
            }
        } else if (a.mine()) {
            a.begin(begun = now);
        } else {
            a.told().waiting = 1;
            again = std::min(again, now + kMillisecond);
        }
    }
    auto views = board.view(now);
    cr_assert_eq(views.size(), 1u);
    cr_expect(views[0].given_seconds > 0.35 && views[0].given_seconds < 0.6, "%.3f s of 2",
              views[0].given_seconds);
}

Test(board, tells_given_time_once)
{
    int64_t now = 1000 * kSecond;
    Board board(now);
    Worker a(board, "mine");
    a.told().waiting = 1;
    board.look(now);
    a.begin(now);
    cr_expect_eq(given(board.collect(now + 10 * kMillisecond), "mine"), 10 * kMillisecond);
    a.end(now + 30 * kMillisecond);
    cr_expect_eq(given(board.collect(now + 40 * kMillisecond), "mine"), 20 * kMillisecond);
    cr_expect(board.collect(now + 50 * kMillisecond).empty(), "once");
    a.begin(now + 60 * kMillisecond);
    board.close(a.number, now + 65 * kMillisecond);
    now += 3600 * kSecond;
    board.look(now);
    cr_expect_eq(given(board.collect(now), "mine"), 5 * kMillisecond,
                 "also when nobody asked for an hour");
}

// A waiting tenant under a ceiling waits for itself.
Test(board, knows_whether_a_ceiling_keeps_it_waiting)
{
    int64_t now = 1000 * kSecond;
    Board board(now);
    Worker low(board, "low", {10, 10, 100}), high(board, "high");
    low.told().waiting = 1;
    board.look(now);
    cr_assert(low.mine());
    low.begin(now);
    low.end(now += kSecond);  // far more than its allowance
    low.told().waiting = 1;
    board.look(now);
    cr_expect_not(low.mine());
    cr_expect_eq(low.place.says->at_ceiling, 1u);
    high.told().waiting = 1;
    board.look(now);
    cr_assert(high.mine(), "the GPU is free");
    high.begin(now);
    board.look(now += 20 * kSecond);
    cr_expect_eq(low.place.says->at_ceiling, 0u, "by now it is the other who has the GPU");
}

// Its turn ends when it should, and the work that it claims to have keeps nobody from theirs for
// ever.
Test(board, who_claims_endless_progress_loses_its_turn)
{
    int64_t now = 1000 * kSecond, until = 0;
    Board board(now);
    Worker liar(board, "liar"), other(board, "other");
    liar.told().waiting = 1;
    board.look(now);
    liar.begin(now);
    other.told().waiting = 1;
    for (until = now + 60 * kSecond; now < until && !other.mine(); now += kMillisecond) {
        liar.told().under_way = now;
        board.look(now);
    }
    cr_expect_lt(now, until - 39 * kSecond);
}

// Asking for turns and not using them is paid for.
Test(board, turns_that_are_not_used_are_paid_for)
{
    int64_t now = 1000 * kSecond;
    Board board(now);
    std::vector<std::unique_ptr<Worker>> idlers;
    for (int i = 0; i < 4; ++i)
        idlers.push_back(
            std::make_unique<Worker>(board, "idler" + std::to_string(i), Terms{10, 100, 100}));
    Worker busy(board, "busy", {60, 100, 100});
    busy.told().waiting = 1;
    int64_t had = 0, from = now;
    for (; now < from + 20 * kSecond; now += kMillisecond / 4) {
        for (auto &idler : idlers) idler->told().waiting = 1;
        board.look(now);
        if (busy.mine()) {
            busy.begin(now);
            had += kMillisecond / 4;
        } else if (busy.told().work & 1) {
            busy.end(now);
            busy.told().waiting = 1;
        }
    }
    const double part = static_cast<double>(had) / static_cast<double>(now - from);
    cr_expect_gt(part, 0.53, "%.3f of 0.6, less what the steps of the clock take", part);
}

// Random bytes in every word, and the token's way goes on: what is read is clamped, nothing leads
// anywhere.
Test(board, bears_random_bytes, .timeout = 60)
{
    std::mt19937_64 random(7);
    int64_t now = 1000 * kSecond;
    Board board(now);
    std::vector<std::unique_ptr<Worker>> liars;
    for (int i = 0; i < 6; ++i)
        liars.push_back(std::make_unique<Worker>(board, "liar" + std::to_string(i % 3),
                                                 Terms{static_cast<int32_t>(random()),
                                                       static_cast<int32_t>(random()),
                                                       static_cast<int32_t>(random())}));
    Worker honest(board, "honest");
    int turns = 0;
    const uint64_t special[] = {0, 1, UINT64_MAX, uint64_t{1} << 63, INT64_MAX, UINT32_MAX};
    for (int round = 0; round < 30000; ++round) {
        for (auto &liar : liars) {
            uint64_t words[sizeof(Told) / 8];
            for (uint64_t &word : words)
                word = random() % 3 ? random() >> random() % 64 : special[random() % 6];
            if (random() % 4) memcpy(static_cast<void *>(&liar->told()), words, sizeof words);
        }
        if (honest.mine()) {
            honest.begin(now);
            honest.end(now);
            honest.told().completed = honest.told().launches.load();
            ++turns;
        }
        honest.told().waiting = 1;
        const int64_t again = board.look(now);
        cr_assert_gt(again, now);
        if (random() % 50 == 0) {
            for (const TenantView &view : board.view(now)) {
                cr_assert(view.memory >= 0 && view.given_1s >= 0 && view.given_1s <= 1.1 &&
                          view.running_s >= 0 && view.longest_s >= 0);
                cr_assert(view.owed_seconds >= -10 && view.owed_seconds <= 10 &&
                          view.workers <= 6 && view.terms.least <= 100);
            }
            for (const Given &one : board.collect(now))
                cr_assert(one.nanoseconds > 0 && one.nanoseconds < 3600 * kSecond);
        }
        if (random() % 200 == 0) {
            size_t which = random() % liars.size();
            board.close(liars[which]->number, now);
            liars[which] = std::make_unique<Worker>(board, "liar" + std::to_string(random() % 9));
        }
        now += static_cast<int64_t>(random() % 4 ? random() % kMillisecond
                                                 : random() % (100 * kMillisecond));
    }
    cr_expect_gt(turns, 100, "%d", turns);
}

// What a tenant may do with the descriptors that it has.
Test(pages, neither_size_nor_the_schedulers_words_can_be_changed)
{
    Ends opened = std::move(*open_ends());
    char text[8], control[CMSG_SPACE(4 * sizeof(int))];
    iovec content{text, sizeof text};
    msghdr message{};
    message.msg_iov = &content;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cr_assert_eq(recvmsg(opened.socket.get(), &message, 0), 8);
    int fds[4];
    memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fds);
    for (int fd : {fds[0], fds[1]}) {
        cr_expect_neq(ftruncate(fd, 0), 0);
        cr_expect_neq(ftruncate(fd, 1 << 20), 0);
        cr_expect_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    }
    cr_expect_eq(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0), MAP_FAILED);
    cr_expect_eq(pwrite(fds[1], "x", 1, 0), -1);
    const std::string again = "/proc/self/fd/" + std::to_string(fds[1]);
    const Fd reopened(open(again.c_str(), O_RDWR));
    cr_expect_eq(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, reopened.get(), 0),
                 MAP_FAILED);
    cr_expect_eq(fallocate(fds[1], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
    // It may take its own page away: the scheduler reads zeros.
    cr_expect_eq(fallocate(fds[0], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
    cr_expect_eq(opened.desk.told->launches.load(), 0u);
    // When all that it had is closed, the line hangs up.
    for (int fd : fds) close(fd);
    pollfd line{opened.line.get(), 0, 0};
    cr_expect_eq(poll(&line, 1, 0), 1);
}

Test(seat, goes_without_turns_when_the_scheduler_is_gone)
{
    auto opened = std::make_unique<Ends>(std::move(*open_ends()));
    Result<std::unique_ptr<Seat>> seat = Seat::take(opened->socket.get());
    cr_assert(seat.has_value());
    cr_expect_not(Seat::take(opened->socket.get()).has_value(), "once");
    cr_expect_not((*seat)->ask());
    cr_expect_not((*seat)->may_launch());
    opened.reset();
    (*seat)->wait();
    cr_expect((*seat)->ask());
    cr_expect((*seat)->may_launch());
}

Test(seat, waits_two_seconds_for_a_scheduler_that_hangs)
{
    Ends opened = std::move(*open_ends());
    Result<std::unique_ptr<Seat>> seat = Seat::take(opened.socket.get());
    const int64_t begin = clock_now();
    while (!(*seat)->ask() && clock_now() < begin + 10 * kSecond) (*seat)->wait();
    const double waited = static_cast<double>(clock_now() - begin) / kSecond;
    cr_expect(waited > 1.9 && waited < 5, "%.1f s", waited);
    opened.desk.says->looked = clock_now();
    (*seat)->look_again();
    cr_expect_not((*seat)->may_launch(), "it answers again");
}

Test(board, a_lease_gets_another_size_while_its_workers_run)
{
    int64_t now = 1000 * kSecond;
    Board board(now);
    Worker one(board, "a", {50, 50, 100}), other(board, "b", {25, 100, 100});
    cr_expect_eq(one.place.says->memory, 0u, "nothing was said");
    cr_expect_eq(one.place.says->has_ceiling, 1u);
    board.look(now);
    cr_expect_eq(board.change("a", {20, 100, 200}, 4096, now), 1u);
    cr_expect_eq(board.change("c", {20, 100, 200}, 4096, now), 0u, "it has no worker");
    cr_expect_eq(one.place.says->memory, 4096u);
    cr_expect_eq(one.place.says->has_ceiling, 0u);
    cr_expect_eq(other.place.says->memory, 0u, "another lease's are as they were");
    for (const TenantView &view : board.view(now))
        if (!strcmp(view.lease, "a"))
            cr_expect(view.terms.least == 20 && view.terms.most == 100 && view.terms.weight == 200);
        else
            cr_expect(view.terms.least == 25 && view.terms.weight == 100);
    // One that has not sat down yet, too.
    Result<Ends> opened = open_ends();
    Result<uint64_t> seat = board.open("d", {50, 50, 100}, std::move(opened->desk), 1024);
    Result<Page<const Says>> words = look_at_words(opened->socket.get());
    cr_assert(words.has_value());
    cr_expect_eq((*words)->memory, 1024u);
    cr_expect_eq(board.change("d", {50, 50, 100}, 2048, now), 1u);
    cr_expect_eq((*words)->memory, 2048u);
    cr_expect(take_tenant_end(opened->socket.get()).has_value(), "the seat was left there");
}

// What a tenant has of it: the scheduler's page, which says how much memory its lease may have.
Test(board, no_worker_writes_what_its_lease_may_have)
{
    Board board(1000 * kSecond);
    Result<Ends> opened = open_ends();
    cr_assert(board.open("a", {50, 50, 100}, std::move(opened->desk), 4096).has_value());
    char text[16];
    std::vector<Fd> given;
    cr_assert(receive_packet(opened->socket.get(), text, sizeof text, given, 4, MSG_PEEK) > 0);
    const int page = given[1].get();
    const uint64_t large = UINT64_MAX;
    cr_expect_eq(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0), MAP_FAILED);
    void *seen = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, page, 0);
    cr_assert_neq(seen, MAP_FAILED);
    cr_expect_neq(mprotect(seen, 4096, PROT_READ | PROT_WRITE), 0);
    cr_expect_eq(pwrite(page, &large, sizeof large, offsetof(Says, memory)), -1);
    const std::string path = "/proc/self/fd/" + std::to_string(page);
    Fd again(open(path.c_str(), O_RDWR));
    cr_expect_eq(pwrite(again.get(), &large, sizeof large, offsetof(Says, memory)), -1);
    cr_expect_eq(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again.get(), 0),
                 MAP_FAILED);
    cr_expect_neq(fallocate(page, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
    cr_expect_neq(ftruncate(page, 0), 0);
    cr_expect_eq(static_cast<const Says *>(seen)->memory, 4096u);
}
