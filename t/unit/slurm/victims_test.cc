// SPDX-License-Identifier: Apache-2.0
// Who makes way for a job that waits for licences.
#include "slurm/quotas/victims.h"

#include <criterion/criterion.h>

using namespace rgpu::slurm;

namespace {

std::vector<Victim> victims(const std::vector<QueuedJob> &queue, const std::vector<Qos> &all,
                            const OwnLicences &sold)
{
    Books books(queue, all, sold);
    return make_way(queue, books).victims;
}

const std::vector<Qos> kAll = {{"normal", 0, {}, {}},
                               {"spare", 0, {}, {}},
                               {"scratch", 5, {}, {}},
                               {"a", 100, {"spare", "scratch"}, 200},
                               {"b", 100, {"spare", "scratch"}, 200},
                               {"boss", 900, {"a", "spare"}, {}}};

QueuedJob runs(const char *id, const char *qos, unsigned long licences, const char *start)
{
    return {id, id, "RUNNING", "None", qos, start, 1, licences};
}

QueuedJob waits(const char *id, const char *qos, unsigned long licences, unsigned long priority = 1)
{
    return {id, id, "PENDING", "Licenses", qos, "N/A", priority, licences};
}

// "9>12": job 9 makes way for job 12.
std::string who(const std::vector<QueuedJob> &queue, unsigned long sold = 400)
{
    std::string out;
    for (const Victim &v : victims(queue, kAll, {sold, {}}))
        out += (out.empty() ? "" : " ") + v.name + ">" + v.for_job;
    return out;
}

const QueuedJob kA1 = runs("1", "a", 100, "2026-11-22T01:00:00"),
                kA2 = runs("2", "a", 100, "2026-11-22T01:00:01"),
                kOld = runs("3", "spare", 100, "2026-11-22T01:00:02"),
                kYoung = runs("4", "spare", 100, "2026-11-22T01:00:03");

}  // namespace

Test(victims, the_youngest_over_its_quota_makes_way)
{
    cr_expect_str_eq(who({kA1, kOld, kYoung, kA2, waits("9", "b", 100)}).c_str(), "4>9");
    cr_expect_str_eq(who({kA1, kOld, kYoung, kA2, waits("9", "b", 200)}).c_str(), "4>9 3>9");
    cr_expect_str_eq(
        who({kA1, kOld, kYoung, kA2, waits("9", "b", 100), waits("10", "b", 100)}).c_str(),
        "4>9 3>10");
    QueuedJob twin = kYoung;
    twin.id = twin.name = "10";
    cr_expect_str_eq(who({kA1, twin, kYoung, kA2, waits("11", "b", 100)}).c_str(), "10>11",
                     "of the same second the one with the higher number");
}

Test(victims, those_of_the_lowest_priority_go_first)
{
    cr_expect_str_eq(who({kA1, kA2, kOld, runs("8", "scratch", 100, "2026-11-22T03:00:00"),
                          waits("9", "b", 100)})
                         .c_str(),
                     "3>9");
}

Test(victims, nobody_goes_where_it_does_not_help)
{
    cr_expect_str_eq(who({kA1, kA2, kOld, kYoung}).c_str(), "", "nobody waits");
    cr_expect_str_eq(who({kA1, kOld, waits("9", "b", 100)}).c_str(), "",
                     "there are licences: Slurm starts it");
    cr_expect_str_eq(who({kA1, kA2, kOld, kYoung, waits("9", "a", 100)}).c_str(), "",
                     "its guarantee is used up");
    cr_expect_str_eq(who({kA1, kA2, kOld, kYoung, waits("9", "b", 300)}).c_str(), "",
                     "more than its guarantee");
    cr_expect_str_eq(who({kA1, kA2, runs("5", "b", 200, "x"), waits("9", "b", 100)}).c_str(), "",
                     "nobody is over a quota");
    cr_expect_str_eq(who({kA1, kA2, kOld, runs("5", "b", 100, "x"), waits("9", "b", 200)}).c_str(),
                     "", "held and wanted are too much");
    cr_expect_str_eq(
        who({kA1, kA2, kOld, runs("5", "normal", 100, "x"), waits("9", "b", 200)}).c_str(), "",
        "one is not enough");
    cr_expect_str_eq(who({kA1, kA2, kOld, kYoung, waits("9", "spare", 100)}).c_str(), "",
                     "spare preempts nobody");
    cr_expect_str_eq(who({kA1, kA2, kOld, kYoung, waits("9", "unknown", 100)}).c_str(), "");
    QueuedJob other = waits("9", "b", 100);
    other.reason = "Dependency";
    cr_expect_str_eq(who({kA1, kA2, kOld, kYoung, other}).c_str(), "",
                     "it waits for something else");
    other.reason = "QOSGrpLicense";
    cr_expect_str_eq(who({kA1, kA2, kOld, kYoung, other}).c_str(), "",
                     "Slurm would not let it start");
    // Behind such a one the scheduler gives no reason.
    other.reason = "None";
    cr_expect_str_eq(who({kA1, kA2, kOld, kYoung, other}).c_str(), "4>9");
}

Test(victims, what_ends_by_itself_counts_as_free)
{
    QueuedJob ending = kYoung;
    ending.state = "COMPLETING";
    cr_expect_str_eq(who({kA1, kA2, kOld, ending, waits("9", "b", 100)}).c_str(), "",
                     "the next call must not take another");
    cr_expect_str_eq(who({kA1, kA2, kOld, ending, waits("9", "b", 200)}).c_str(), "3>9");
}

Test(victims, what_cannot_be_sold_is_not_free)
{
    cr_expect_str_eq(who({kA1, kOld, kYoung, waits("9", "b", 100)}, 300).c_str(), "4>9");
    cr_expect_str_eq(who({kA1, kOld, kYoung, waits("9", "b", 100)}, 200).c_str(), "4>9 3>9",
                     "a server went down: one has to go for that, too");
}

Test(victims, small_ones_stay_where_a_large_one_is_enough)
{
    cr_expect_str_eq(
        who({runs("1", "spare", 300, "1"), runs("2", "spare", 100, "2"), waits("9", "b", 200)})
            .c_str(),
        "1>9");
}

Test(victims, the_highest_priority_is_served_first)
{
    cr_expect_str_eq(who({kA1, kA2, kOld, runs("5", "normal", 100, "x"), waits("9", "b", 100, 10),
                          waits("10", "boss", 100, 20)})
                         .c_str(),
                     "3>10", "nothing is left for the other");
    cr_expect_str_eq(
        who({kA1, kA2, runs("5", "normal", 200, "x"), waits("10", "boss", 100, 20)}).c_str(),
        "2>10", "no limit, and its QOS preempts a");
}

Test(victims, of_a_type_only_those_who_have_it_make_way)
{
    auto typed = [](QueuedJob job, const char *type) {
        job.types[type] = job.licences;
        return job;
    };
    QueuedJob a100 = typed(kOld, "a100"), h100 = typed(kYoung, "h100");
    const std::vector<QueuedJob> queue = {a100, h100, typed(waits("9", "a", 100), "a100")};
    auto chosen = victims(queue, kAll, {400, {{"a100", 100}, {"h100", 100}}});
    cr_assert(chosen.size() == 1);
    cr_expect(chosen[0].name == a100.name, "the younger one has another type");
    cr_expect(victims(queue, kAll, {400, {{"a100", 200}, {"h100", 100}}}).empty(),
              "there is one left");
}

Test(victims, those_who_have_all_of_a_type_get_none)
{
    std::vector<Qos> all = kAll;
    all[3].of_types["a100"] = 100;
    QueuedJob has = kA1, wants = waits("9", "a", 100);
    has.types["a100"] = wants.types["a100"] = 100;
    cr_expect(victims({has, kOld, wants}, all, {200, {{"a100", 200}}}).empty());
    wants.types.clear();
    cr_expect_eq(victims({has, kOld, wants}, all, {200, {{"a100", 200}}}).size(), 1u);
}

Test(victims, what_is_left_is_known_afterwards)
{
    const std::vector<QueuedJob> queue = {
        kA1, kOld, kYoung, waits("9", "b", 100), waits("10", "b", 200), waits("11", "spare", 100)};
    Books books(queue, kAll, {400, {}});
    const MadeWay made = make_way(queue, books);
    cr_expect(made.victims.empty());
    cr_assert_eq(made.starting.size(), 1u, "one is free, and the quota of b is then used up");
    cr_expect_str_eq(made.starting[0]->name.c_str(), "9");
    cr_expect_eq(books.free().at(""), 0);
    cr_expect(books.has_room("b", {{"", 100}}));
    cr_expect_not(books.has_room("b", {{"", 200}}));
    cr_expect_not(books.has_room("unknown", {{"", 1}}));
    cr_expect(books.has_room("spare", {{"", 10000}}), "no limit");
}
