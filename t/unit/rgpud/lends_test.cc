// SPDX-License-Identifier: Apache-2.0
// Who lends which GPUs, and when the leases on those that are not lent (any more) are due.
#include "rgpud/leases/lends.h"

#include <criterion/criterion.h>

using namespace rgpu;
using namespace rgpu::serverd;
using namespace std::chrono_literals;

static const Time kStart = Time(Milliseconds(1000000));

// Three GPUs; the driver's order is not that of the PCI bus.
static std::vector<pool::GpuState> gpus()
{
    std::vector<pool::GpuState> gpus(3);
    const char *pci[] = {"0000:af:00.0", "0000:3b:00.0", "0000:d8:00.0"};
    for (int i = 0; i < 3; ++i) {
        auto &gpu = gpus[static_cast<size_t>(i)];
        gpu.index = i;
        gpu.uuid = "GPU-" + std::to_string(i);
        gpu.pci = pci[i];
    }
    return gpus;
}

static pool::Lend lend(std::vector<std::string> gpus, Milliseconds grace = 25s,
                       const char *job = "17")
{
    pool::Lend lend{std::move(gpus), grace, {}};
    lend.owner.job = job;
    lend.owner.node = "cn1";
    return lend;
}

using Names = std::vector<std::string>;

Test(lends, numbers_are_places_on_the_bus)
{
    Lends lends(gpus(), kStart);
    auto given = lends.add(lend({"0", "GPU-2", "2"}), kStart);
    cr_assert(given.has_value() && given->gpus.size() == 2, "named twice is there once");
    cr_assert_eq(given->gpus[0].uuid, "GPU-1");
    cr_assert_eq(lends.lent(), (std::set<std::string>{"GPU-1", "GPU-2"}));
    cr_assert_eq(lends.secret(given->id), given->secret);
    auto wrong = lends.add(lend({"3"}), kStart);
    cr_assert(!wrong && wrong.error().kind == ErrorKind::invalid);
}

Test(lends, what_was_never_lent_is_due_when_those_who_may_come_back_had_their_time)
{
    Lends lends(gpus(), kStart);
    cr_assert(lends.due(kStart + defaults::kLendReturn - 1ms).empty());
    cr_assert(lends.add(lend({"GPU-0"}), kStart + 1s).has_value());
    cr_assert_eq(lends.due(kStart + defaults::kLendReturn), (Names{"GPU-1", "GPU-2"}));
}

Test(lends, a_withdrawn_gpu_is_due_after_its_grace)
{
    Lends lends(gpus(), kStart);
    auto given = lends.add(lend({"GPU-0"}, 30s), kStart);
    cr_assert(lends.held(given->id));
    Time later = kStart + 1h;
    cr_assert(lends.expire(later).empty(), "held, it lasts");
    cr_assert(lends.withdraw(given->id, later));
    cr_assert(lends.lent().empty());
    cr_assert_not(lends.secret(given->id).has_value());
    cr_assert_not(lends.withdraw(given->id, later));
    cr_assert_eq(lends.due(later + 29999ms), (Names{"GPU-1", "GPU-2"}));
    cr_assert_eq(lends.due(later + 30s), (Names{"GPU-0", "GPU-1", "GPU-2"}));
    // Lent again in time: the leases stay.
    cr_assert(lends.add(lend({"GPU-0"}), later + 29s).has_value());
    cr_assert_eq(lends.due(later + 30s), (Names{"GPU-1", "GPU-2"}));
}

Test(lends, one_that_is_lost_is_due_soon)
{
    Lends lends(gpus(), kStart);
    auto one = lends.add(lend({"GPU-0"}, 30s), kStart);
    auto two = lends.add(lend({"GPU-1"}, 0s, "18"), kStart);
    cr_assert(lends.held(one->id) && lends.held(two->id));
    Time later = kStart + 1h;
    cr_assert(lends.lost(one->id, later) && lends.lost(two->id, later));
    cr_assert_not(lends.lost(one->id, later));
    cr_assert(lends.lent().empty());
    cr_assert_eq(lends.due(later), (Names{"GPU-1", "GPU-2"}), "with no grace at once");
    cr_assert_eq(lends.due(later + defaults::kHolderGrace).size(), 3u);
}

Test(lends, one_that_nobody_comes_to_hold_ends)
{
    Lends lends(gpus(), kStart);
    auto given = lends.add(lend({"GPU-0"}), kStart);
    cr_assert(lends.expire(kStart + defaults::kHolderGrace - 1ms).empty());
    auto ended = lends.expire(kStart + defaults::kHolderGrace);
    cr_assert(ended.size() == 1 && ended[0].id == given->id);
    cr_assert(lends.lent().empty());
    cr_assert_not(lends.held(given->id));
}

Test(lends, a_gpu_is_lent_once_and_by_the_same_owner_anew)
{
    Lends lends(gpus(), kStart);
    auto first = lends.add(lend({"GPU-0"}), kStart);
    auto other = lends.add(lend({"GPU-1", "GPU-0"}, 25s, "18"), kStart);
    cr_assert(!other && other.error().kind == ErrorKind::unavailable);
    cr_assert(other.error().text.find("job 17 on cn1") != std::string::npos, "%s",
              other.error().text.c_str());
    cr_assert_eq(lends.lent(), std::set<std::string>{"GPU-0"}, "nothing of it is done");
    cr_assert(lends.add(lend({"GPU-2"}), kStart).has_value());
    cr_assert_eq(lends.lent().size(), 2u, "one owner may lend other GPUs, too");
    auto again = lends.add(lend({"GPU-0"}), kStart);
    cr_assert(again.has_value() && again->id != first->id);
    cr_assert_not(lends.lost(first->id, kStart),
                  "the connection of the one before means nothing now");
    cr_assert_eq(lends.lent().size(), 2u);
}
