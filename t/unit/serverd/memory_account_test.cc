// SPDX-License-Identifier: Apache-2.0
// The account of a lease's memory, whose cap changes while workers take memory.
#include "serverd/memory_account.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

using namespace rgpu;
using namespace rgpu::worker;

static constexpr uint64_t kPiece = 256, kWhole = 1000 * kPiece;

namespace {

struct Account {
    Fd file{memfd_create("account", MFD_CLOEXEC)};
    std::atomic<uint64_t> cap = kWhole;

    Account() { cr_assert_eq(ftruncate(file.get(), MemoryAccount::file_bytes(8, 1)), 0); }
    // Of an open file description of its own.
    Fd open() const
    {
        return Fd(::open(("/proc/self/fd/" + std::to_string(file.get())).c_str(), O_RDWR));
    }
    MemoryAccount worker()
    {
        auto opened = MemoryAccount::open(open(), {kWhole});
        cr_assert(opened.has_value());
        opened->set_whole(0, UINT64_MAX);
        opened->follow(0, &cap);
        return std::move(*opened);
    }
};

}  // namespace

Test(memory_account, follows_the_word_that_says_its_cap)
{
    Account account;
    MemoryAccount one = account.worker();
    cr_expect(one.hold(0, 600 * kPiece));
    account.cap = 500 * kPiece;
    cr_expect_eq(one.cap(0), 500 * kPiece);
    cr_expect_not(one.hold(0, 601 * kPiece));
    cr_expect_eq(one.used(0), 600 * kPiece, "what was refused is not held");
    cr_expect(one.hold(0, 500 * kPiece));
    account.cap = 0;
    cr_expect_eq(one.cap(0), kWhole, "nothing is said: the cap of the start");
    one.set_whole(0, kWhole);
    cr_expect_not(one.is_limited(0));
    cr_expect(one.hold(0, 2 * kWhole), "a whole GPU has no cap of ours");
}

Test(memory_account, tells_rgpud_what_live_workers_hold)
{
    Account account;
    MemoryAccount one = account.worker();
    {
        MemoryAccount two = account.worker();
        cr_expect(two.hold(0, 20 * kPiece));
        cr_expect(one.hold(0, 10 * kPiece));
        two.note_credit(0, 3);
        const auto all = MemoryAccount::in_use(account.open(), 1);
        cr_expect_eq(all[0].bytes, 30 * kPiece);
        cr_expect_eq(all[0].credit, 3u);
    }
    cr_expect_eq(MemoryAccount::in_use(account.open(), 1)[0].bytes, 10 * kPiece,
                 "what has ended holds nothing");
}

// Who takes memory and who makes the cap smaller meet at the same moment, again and again: never is
// a smaller cap found to be kept, and passed all the same.
Test(memory_account, no_worker_gets_past_a_cap_that_has_become_smaller)
{
    constexpr int kRounds = 4000;
    constexpr uint64_t kLarge = 600 * kPiece, kSmall = 500 * kPiece;
    Account account;
    const Fd file = account.open();
    std::atomic<int> begun = 0, taken = 0;
    MemoryAccount one = account.worker();
    // To look at these takes a while: there is room for something to happen in between.
    std::vector<MemoryAccount> others;
    others.reserve(6);
    for (int i = 0; i < 6; i++) {
        others.push_back(account.worker());
        cr_assert(others.back().hold(0, kPiece));
    }
    std::thread worker([&] {
        for (int round = 1; round <= kRounds; round++) {
            while (begun != round) {}
            one.hold(0, kLarge);
            taken = round;
            while (begun == round) {}
            one.hold_anyway(0, 0);
            taken = -round;
        }
    });
    int granted = 0, passed = 0;
    for (int round = 1; round <= kRounds; round++) {
        account.cap = kWhole;
        begun = round;
        // At another moment of its call each time.
        for (int pause = round % 4000; pause > 0; pause--)
            std::atomic_signal_fence(std::memory_order_seq_cst);
        account.cap = kSmall;
        const bool kept = MemoryAccount::in_use(file, 1)[0].bytes <= kSmall;
        while (taken != round) {}
        granted += kept;
        passed += kept && MemoryAccount::in_use(file, 1)[0].bytes > kSmall;
        begun = -round;
        while (taken != -round) {}
    }
    worker.join();
    cr_expect_eq(passed, 0, "%d times", passed);
    cr_expect_gt(granted, 0);
}
