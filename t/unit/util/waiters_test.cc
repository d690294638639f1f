// SPDX-License-Identifier: Apache-2.0
// A pool of threads for jobs that wait.
#include "util/waiters.h"

#include <criterion/criterion.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

using namespace rgpu;
using namespace std::chrono_literals;

Test(waiters, has_so_many_threads_and_others_wait_their_turn)
{
    constexpr size_t kJobs = 3 * Waiters::kMostThreads;
    static Waiters &waiters = *new Waiters;
    static std::mutex mutex;
    static std::condition_variable changed;
    static bool open = false;
    static size_t inside = 0, most = 0, done = 0;
    for (size_t i = 0; i < kJobs; ++i)
        waiters.run([] {
            std::unique_lock lock(mutex);
            most = std::max(most, ++inside);
            changed.notify_all();
            changed.wait(lock, [] { return open; });
            inside--, done++;
            changed.notify_all();
        });
    std::unique_lock lock(mutex);
    cr_assert(changed.wait_for(lock, 20s, [] { return inside == Waiters::kMostThreads; }));
    cr_expect_eq(waiters.behind(), kJobs - Waiters::kMostThreads);
    open = true;
    changed.notify_all();
    cr_assert(changed.wait_for(lock, 20s, [] { return done == kJobs; }),
              "%zu of %zu jobs were done", done, kJobs);
    cr_expect_eq(most, Waiters::kMostThreads);
    cr_expect_eq(waiters.behind(), 0);
}
