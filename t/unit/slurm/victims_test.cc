// SPDX-License-Identifier: Apache-2.0
// Who makes way for a job that waits for licences.
#include "slurm/jobs/victims.h"

#include <criterion/criterion.h>

using namespace rgpu::slurm;

namespace {

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

Test(victims, reads_what_slurm_prints)
{
    auto queue =
        parse_queue("7|7_[3-5]|PENDING|Licenses|b|2026-11-23T01:17:00|1000000|rgpu:100,matlab:2\n"
                    "8|8|RUNNING|None|a|2026-11-22T01:17:21|1|(null)\n"
                    "9|7_2|RUNNING|None|spare|2026-11-22T01:17:21|4294901757|matlab:1,rgpu:50\n"
                    "11|10+1|RUNNING|None|spare|2026-11-22T01:17:21|1|rgpu:50\n\n|||\n");
    cr_assert_eq(queue.size(), 3u, "the one without GPUs is left out");
    cr_expect_str_eq(queue[1].name.c_str(), "7_2",
                     "Slurm means the whole array by the number of one of its tasks");
    cr_expect_str_eq(queue[2].name.c_str(), "10", "a heterogeneous job is requeued by its leader");
    cr_expect_eq(queue[0].licences, 100u);
    cr_expect_eq(queue[0].reason, "Licenses");
    cr_expect_eq(queue[1].qos, "spare");
    cr_expect_eq(queue[1].priority, 4294901757u);
    cr_expect_eq(queue[1].start, "2026-11-22T01:17:21");
    auto qos =
        parse_qos("normal|0||\nspare|1||cpu=4\na|100|spare,scratch|cpu=8,license/rgpu=250\n");
    cr_assert_eq(qos.size(), 3u);
    cr_expect_not(qos[1].guarantee.has_value());
    cr_expect_eq(qos[2].priority, 100u);
    cr_expect_eq(qos[2].preempts, (std::vector<std::string>{"spare", "scratch"}));
    cr_expect_eq(qos[2].guarantee.value_or(0), 250u);
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
