// SPDX-License-Identifier: Apache-2.0
// Leases whose workers take their time to end, and whoever waits for that.
#include "rgpud/leases/ending_leases.h"

#include <criterion/criterion.h>

#include <atomic>
#include <thread>

using namespace rgpu;
using namespace rgpu::serverd;
using namespace std::chrono_literals;

static std::vector<pool::Lease> leases(std::initializer_list<const char *> ids)
{
    std::vector<pool::Lease> all;
    for (const char *id : ids) all.emplace_back().id = id;
    return all;
}

constexpr Milliseconds kLong = 60s, kShort = 20ms;

Test(ending_leases, await_returns_at_once_where_none_is_ending)
{
    EndingLeases ending;
    ending.add("other");
    const Time start = now();
    ending.await(leases({"a", "b"}), kLong);
    ending.await({}, kLong);
    cr_expect_lt(Milliseconds(now() - start).count(), kLong.count() / 2);
}

Test(ending_leases, await_gives_up_after_its_limit)
{
    EndingLeases ending;
    ending.add("a");
    const Time start = now();
    ending.await(leases({"a"}), kShort);
    cr_expect_geq(Milliseconds(now() - start).count(), kShort.count());
}

Test(ending_leases, await_returns_when_the_last_of_its_leases_is_gone)
{
    EndingLeases ending;
    for (const char *id : {"a", "b", "other"}) ending.add(id);
    std::atomic<bool> all_gone{false}, returned{false};
    std::thread waits([&] {
        ending.await(leases({"a", "b"}), kLong);
        cr_expect(all_gone, "one of them was still there");
        returned = true;
    });
    ending.remove({"a", "never there"});
    all_gone = true;
    ending.remove({"b"});
    waits.join();
    cr_expect(returned);
    const Time start = now();
    ending.await(leases({"a", "b"}), kLong);
    cr_expect_lt(Milliseconds(now() - start).count(), kLong.count() / 2);
}
