// What is read of a job's record, and the note in its AdminComment.
#include <criterion/criterion.h>

#include "slurm/jobs/record.h"

using namespace rgpu::slurm;

// As Slurm 22.05 prints a job that has lost its server, and the second part of a heterogeneous one
// behind it.
static constexpr char kShown[] =
    "JobId=17 ArrayJobId=14 ArrayTaskId=3 JobName=wrap\n"
    "   UserId=root(0) GroupId=root(0) MCS_label=N/A\n"
    "   JobState=COMPLETING Reason=NonZeroExitCode Dependency=(null)\n"
    "   Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=5:0\n"
    "   StartTime=2026-11-22T10:47:41 EndTime=2026-11-22T10:47:43 Deadline=N/A\n"
    "   AdminComment=rgpu: lost gpu1: requeued; avoids gpu1 until 2026-11-22T02:00:00Z \n"
    "   Comment=AdminComment=mine\n"
    "\n"
    "JobId=18 JobName=wrap\n"
    "   JobState=RUNNING Reason=None Dependency=(null)\n";

Test(record, is_what_scontrol_prints_of_the_first_job)
{
    auto job = parse_job(kShown);
    cr_assert(job.has_value());
    cr_expect(job->state == "COMPLETING" && job->reason == "NonZeroExitCode" &&
              job->restarts == 2 && job->batch && job->requeue && job->ended);
    cr_expect(job->comment == "rgpu: lost gpu1: requeued; avoids gpu1 until 2026-11-22T02:00:00Z",
              "[%s]", job->comment.c_str());
    job =
        parse_job("JobId=9 JobName=bash\n   JobState=RUNNING Reason=None\n   Requeue=0 Restarts=0 "
                  "BatchFlag=0 Reboot=0\n   StartTime=2026-11-22T10:47:45 EndTime=Unknown\n");
    cr_assert(job.has_value());
    cr_expect(!job->batch && !job->requeue && !job->ended && job->comment.empty());
    cr_expect(!parse_job("No jobs in the system\n").has_value());
}

Test(record, a_note_is_read_back)
{
    std::vector<Avoided> avoid = {{"gpu1", 1795312800}, {"gpu 2", 1795316400}};
    std::string comment = with_note("", "lost two servers; again: requeued", avoid);
    cr_expect(comment == "rgpu: lost two servers; again: requeued; avoids gpu1 until "
                         "2026-11-22T02:00:00Z, gpu 2 until 2026-11-22T03:00:00Z",
              "[%s]", comment.c_str());
    cr_expect(avoided(comment, 1795312799) == avoid);
    auto later = avoided(comment, 1795312800);
    cr_assert_eq(later.size(), 1u);
    cr_expect_str_eq(later[0].server.c_str(), "gpu 2");
}

Test(record, a_note_takes_the_place_of_ours_and_leaves_others)
{
    cr_expect(with_note("rgpu: the old one; avoids gpu1 until 2026-11-22T02:00:00Z", "new", {}) ==
              "rgpu: new");
    cr_expect(with_note("paid by rgpu: us", "new", {}) == "paid by rgpu: us | rgpu: new");
    cr_expect(with_note("paid by rgpu: us | rgpu: old", "new", {}) ==
              "paid by rgpu: us | rgpu: new");
    cr_expect(with_note("", "two\nlines", {}) == "rgpu: two lines");
}

Test(record, others_words_name_no_server)
{
    cr_expect(avoided("", 0).empty());
    cr_expect(avoided("; avoids gpu1 until 2026-11-22T02:00:00Z", 0).empty(), "it is not ours");
    cr_expect(avoided("rgpu: no GPUs within 30m", 0).empty());
    cr_expect(avoided("rgpu: x; avoids gpu1", 0).empty());
    cr_expect(avoided("rgpu: x; avoids gpu1 until tomorrow", 0).empty());
}
