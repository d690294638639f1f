// SPDX-License-Identifier: Apache-2.0
// Who is moved to the QOS for what is over, and back.
#include "slurm/quotas/over_quota.h"

#include <criterion/criterion.h>

#include "slurm/jobs/record.h"

using namespace rgpu::slurm;

namespace {

constexpr int64_t kNow = 1795312800;
constexpr int64_t kTry = kOverQuotaTry.count(), kRest = kOverQuotaRest.count();

const std::vector<Qos> kAll = {{"spare", 0, {}, {}},
                               {"scratch", 5, {}, 100},
                               {"a", 100, {"scratch", "spare"}, 200},
                               {"b", 100, {"spare"}, 200},
                               {"c", 100, {}, 100}};

const std::vector<Association> kRights = {{"ann", "acc", "", {"a", "c", "spare", "scratch"}},
                                          {"bob", "acc", "", {"b", "spare"}},
                                          {"eve", "acc", "", {"a"}}};

QueuedJob runs(const char *id, const char *qos, unsigned long licences)
{
    QueuedJob job{id, id, "RUNNING", "None", qos, "2026-11-22T01:00:00", 1, licences};
    job.requeues = true, job.user = "ann", job.account = "acc", job.partition = "all";
    return job;
}

QueuedJob waits(const char *id, const char *qos, unsigned long licences,
                const char *reason = "QOSGrpLicense")
{
    QueuedJob job = runs(id, qos, licences);
    job.state = "PENDING", job.reason = reason;
    return job;
}

// One that was moved out of a ten seconds ago.
QueuedJob moved(const char *id, unsigned long licences, const char *reason, int64_t ago = 10)
{
    QueuedJob job = waits(id, "spare", licences, reason);
    job.comment = with_qos_mark("", {"a", kNow - ago, 0});
    return job;
}

const QueuedJob kA = runs("1", "a", 200);  // all that a may have

std::vector<Move> all_moves(const std::vector<QueuedJob> &queue, unsigned long sold = 400)
{
    Books books(queue, kAll, {sold, {}});
    const MadeWay made = make_way(queue, books);
    return moves(queue, books, made, kRights, kNow);
}

// "9>spare": job 9 gets QOS spare.
const std::string &who(const std::vector<QueuedJob> &queue, unsigned long sold = 400)
{
    static std::string out;  // its text is read behind the call
    out.clear();
    for (const Move &move : all_moves(queue, sold))
        out += (out.empty() ? "" : " ") + move.job + ">" + (move.from == move.to ? "" : move.to);
    return out;
}

}  // namespace

Test(over_quota, a_job_over_its_quota_uses_idle_gpus)
{
    auto moves = all_moves({kA, waits("9", "a", 100)});
    cr_assert_eq(moves.size(), 1u);
    cr_expect(moves[0].job == "9" && moves[0].from == "a" && moves[0].to == "spare");
    cr_expect(qos_mark(moves[0].comment) == (QosMark{"a", kNow, 0}));
    cr_expect_str_eq(
        who({kA, waits("9", "a", 100), waits("10", "a", 100), waits("11", "a", 100)}).c_str(),
        "9>spare 10>spare", "as many as find GPUs");
    QueuedJob large = waits("9", "a", 300), first = waits("11", "a", 100);
    first.priority = 5;
    cr_expect_str_eq(who({kA, large, waits("10", "a", 200), first}, 400).c_str(), "11>spare",
                     "the one of the highest priority first");
    cr_expect_str_eq(who({kA, large, waits("10", "a", 200)}).c_str(), "10>spare",
                     "a large one keeps nobody back");
}

Test(over_quota, none_is_moved_that_has_no_gpus_or_no_right)
{
    cr_expect_str_eq(who({kA, runs("2", "b", 200), waits("9", "a", 100)}).c_str(), "", "none idle");
    cr_expect_str_eq(who({kA, waits("2", "b", 200, "Licenses"), waits("9", "a", 100)}).c_str(), "",
                     "who is within his quota is about to have them");
    cr_expect_str_eq(who({kA, waits("9", "a", 100, "AssocGrpLicense")}).c_str(), "");
    cr_expect_str_eq(who({kA, waits("9", "a", 100, "QOSGrpLicenseMinutes")}).c_str(), "",
                     "a budget is no quota");
    cr_expect_str_eq(who({waits("9", "a", 100)}).c_str(), "", "there is room by now");
    cr_expect_str_eq(who({runs("1", "c", 100), waits("9", "c", 100)}).c_str(), "",
                     "its QOS preempts none");
    QueuedJob other = waits("9", "a", 100);
    other.user = "eve";
    cr_expect_str_eq(who({kA, other}).c_str(), "", "its user may not use spare");
    other.user = "nobody";
    cr_expect_str_eq(who({kA, other}).c_str(), "");
    other = waits("9", "a", 100);
    other.requeues = false;
    cr_expect_str_eq(who({kA, other}).c_str(), "", "it would be cancelled");
    other = waits("9", "a", 100);
    other.het = true;
    cr_expect_str_eq(who({kA, other}).c_str(), "");
    other = waits("9", "unknown", 100);
    cr_expect_str_eq(who({kA, other}).c_str(), "");
}

Test(over_quota, of_several_qos_the_lowest_with_room_is_used)
{
    std::vector<Qos> all = kAll;
    all[0].guarantee = 50;  // of spare
    const std::vector<QueuedJob> queue = {kA, waits("9", "a", 100), waits("10", "a", 100),
                                          waits("11", "a", 50)};
    Books books(queue, all, {800, {}});
    const MadeWay made = make_way(queue, books);
    std::string to;
    for (const Move &move : moves(queue, books, made, kRights, kNow))
        to += move.job + move.to + " ";
    cr_expect_str_eq(to.c_str(), "9scratch 11spare ", "both have limits, too");
}

Test(over_quota, the_waiting_tasks_of_an_array_stay_together)
{
    QueuedJob array = waits("7", "a", 100);
    array.name = "7_[3,4,5]";
    cr_expect_str_eq(who({kA, array}).c_str(), "7_[3,4,5]>spare");
    cr_expect_str_eq(who({kA, array, runs("2", "b", 200)}).c_str(), "");
    array = moved("7", 100, "Licenses");
    array.name = "7_[4,5]";
    cr_expect_str_eq(who({kA, array}).c_str(), "");
    cr_expect_str_eq(who({kA, array, runs("2", "b", 200)}).c_str(), "7_[4,5]>a");
}

Test(over_quota, a_reason_of_before_is_none)
{
    cr_expect_str_eq(who({kA, moved("9", 100, "QOSGrpLicense")}).c_str(), "",
                     "Slurm has not looked yet");
    cr_expect_str_eq(who({kA, moved("9", 200, "QOSGrpLicense"), waits("10", "a", 100)}).c_str(), "",
                     "and its GPUs are nobody else's");
    auto late = all_moves({kA, moved("9", 100, "QOSGrpLicense", kTry)});
    cr_assert_eq(late.size(), 1u);
    cr_expect_eq(qos_mark(late[0].comment).stays, kNow + kRest, "nor does it");
}

Test(over_quota, a_job_in_spare_by_its_users_will_is_never_touched)
{
    for (const char *reason :
         {"Licenses", "BeginTime", "QOSGrpLicense", "JobHeldUser", "Resources"})
        cr_expect_str_eq(who({waits("9", "spare", 100, reason)}).c_str(), "", "%s", reason);
}

Test(over_quota, a_moved_job_is_left_where_it_can_start)
{
    cr_expect_str_eq(who({kA, moved("9", 100, "Licenses")}).c_str(), "");
    cr_expect_str_eq(who({kA, moved("9", 100, "None")}).c_str(), "");
    cr_expect_str_eq(who({kA, moved("9", 100, "Resources")}).c_str(), "");
    cr_expect_str_eq(who({kA, moved("9", 100, "None"), waits("10", "a", 200)}).c_str(), "",
                     "and nobody is promised the same GPUs");
    cr_expect_str_eq(who({kA, moved("9", 100, "None"), waits("10", "a", 100)}).c_str(), "10>spare");
}

Test(over_quota, a_moved_job_is_back_when_it_waits_for_something)
{
    for (const char *reason : {"BeginTime", "JobHeldUser", "Dependency"}) {
        auto moves = all_moves({kA, moved("9", 100, reason)});
        cr_assert_eq(moves.size(), 1u, "%s", reason);
        cr_expect(moves[0].to == "a" && moves[0].comment.empty(), "%s: [%s]", reason,
                  moves[0].comment.c_str());
    }
    cr_expect_str_eq(who({kA, runs("2", "b", 200), moved("9", 100, "Licenses")}).c_str(), "9>a",
                     "none is idle any more");
    cr_expect_str_eq(who({moved("9", 100, "None")}).c_str(), "9>a", "its own QOS has room");
    cr_expect_str_eq(who({moved("9", 200, "None"), moved("10", 100, "None")}).c_str(), "9>a",
                     "and for one of them only");
    cr_expect_str_eq(who({kA, runs("3", "spare", 100), waits("2", "b", 100, "Licenses"),
                          moved("9", 100, "Licenses")},
                         300)
                         .c_str(),
                     "9>a", "somebody within his quota gets them");
}

Test(over_quota, one_that_does_not_start_there_rests)
{
    for (const char *reason :
         {"QOSMaxJobsPerUserLimit", "AssocGrpLicense", "InvalidQOS", "JobArrayTaskLimit"}) {
        auto moves = all_moves({kA, moved("9", 100, reason)});
        cr_assert_eq(moves.size(), 1u, "%s", reason);
        cr_expect_eq(qos_mark(moves[0].comment).stays, kNow + kRest, "%s", reason);
    }
    auto late = all_moves({kA, moved("9", 100, "Resources", kTry)});
    cr_assert_eq(late.size(), 1u);
    cr_expect(late[0].to == "a" && qos_mark(late[0].comment).stays == kNow + kRest);
    QueuedJob rests = waits("9", "a", 100);
    rests.comment = late[0].comment;
    cr_expect_str_eq(who({kA, rests}).c_str(), "");
    rests.comment = with_qos_mark("", {"", 0, kNow});
    cr_expect_str_eq(who({kA, rests}).c_str(), "9>spare", "not for ever");
}

Test(over_quota, what_somebody_else_has_changed_is_left)
{
    QueuedJob job = moved("9", 100, "BeginTime");
    job.qos = "a";
    auto moves = all_moves({job});
    cr_assert_eq(moves.size(), 1u);
    cr_expect(moves[0].from == moves[0].to && moves[0].comment.empty(), "only the mark goes");
    job.qos = "c";
    cr_expect_str_eq(who({job}).c_str(), "9>", "a does not preempt c");
    job = moved("9", 100, "BeginTime");
    job.user = "bob";
    cr_expect_str_eq(who({job}).c_str(), "9>", "a mark gives nobody a QOS that is not his");
    job = moved("9", 100, "BeginTime");
    job.state = "RUNNING";
    cr_expect_str_eq(who({kA, job}).c_str(), "", "Slurm changes the QOS of waiting jobs only");
}

Test(over_quota, slurm_is_asked_for_rights_only_where_a_job_may_be_moved)
{
    cr_expect(movers({kA, waits("9", "b", 100, "Licenses")}).empty());
    QueuedJob bobs = waits("10", "b", 100);
    bobs.user = "bob";
    cr_expect(movers({kA, waits("9", "a", 100), bobs, waits("11", "a", 1)}) ==
              (std::vector<std::string>{"ann", "bob"}));
    cr_expect(movers({moved("9", 100, "BeginTime")}) == std::vector<std::string>{"ann"});
}

Test(over_quota, rights_are_read_as_sacctmgr_prints_them)
{
    auto rights = parse_associations("ann|acc||a,spare\nann|acc|night|a\n|acc||a\nbob|acc||\n");
    cr_assert_eq(rights.size(), 3u);
    cr_expect(rights[0].user == "ann" && rights[0].account == "acc" && rights[0].partition.empty());
    cr_expect(rights[0].qos == (std::vector<std::string>{"a", "spare"}));
    cr_expect(rights[1].partition == "night" && rights[2].qos.empty());
    // What is said of the partition counts there.
    QueuedJob job = waits("9", "a", 100);
    const std::vector<QueuedJob> queue = {kA, job};
    Books books(queue, kAll, {400, {}});
    cr_expect_eq(moves(queue, books, {}, rights, kNow).size(), 1u);
    const std::vector<QueuedJob> night = [&] {
        job.partition = "night";
        return std::vector<QueuedJob>{kA, job};
    }();
    Books at_night(night, kAll, {400, {}});
    cr_expect(moves(night, at_night, {}, rights, kNow).empty());
}
