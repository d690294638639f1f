// SPDX-License-Identifier: Apache-2.0
// What is read of a job's record, and the note in its AdminComment.
#include <criterion/criterion.h>

#include "slurm/jobs/record.h"

using namespace rgpu::slurm;

// As Slurm 22.05 prints a job that has lost its server, and the second part of a heterogeneous one
// behind it.
static constexpr char kPrinted[] =
    "COMPLETING|2|1|1|2026-11-22T10:47:43|NonZeroExitCode|rgpu: lost gpu1: requeued; avoids gpu1 "
    "until 2026-11-22T02:00:00Z\x1f\n"
    "RUNNING|0|1|1|NONE|None|\x1f\n";

Test(record, is_what_squeue_prints_of_the_first_job)
{
    auto job = parse_job(kPrinted);
    cr_assert(job.has_value());
    cr_expect(job->state == "COMPLETING" && job->reason == "NonZeroExitCode" &&
              job->restarts == 2 && job->batch && job->requeue && job->ended);
    cr_expect(job->comment == "rgpu: lost gpu1: requeued; avoids gpu1 until 2026-11-22T02:00:00Z",
              "[%s]", job->comment.c_str());
    job = parse_job("RUNNING|0|0|0|NONE|None|\x1f\n");
    cr_assert(job.has_value());
    cr_expect(!job->batch && !job->requeue && !job->ended && job->comment.empty());
    for (const char *none : {"", "\n", "slurm_load_jobs error: Invalid job id specified\n"})
        cr_expect(!parse_job(none).has_value(), "[%s]", none);
}

Test(record, an_administrators_comment_may_hold_anything)
{
    auto job = parse_job("PENDING|1|1|1|N/A|Licenses|two\nlines | of RUNNING|9|\x1f\n");
    cr_assert(job.has_value());
    cr_expect(job->state == "PENDING" && job->restarts == 1 && !job->ended);
    cr_expect(job->comment == "two\nlines | of RUNNING|9|", "[%s]", job->comment.c_str());
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

Test(record, the_qos_that_a_job_came_from_outlives_notes)
{
    const QosMark mark = {"physics", 1795312800, 0};
    std::string comment = with_qos_mark("paid", mark);
    cr_expect_str_eq(
        comment.c_str(),
        "paid | rgpu: uses what is over, in place of QOS physics since 2026-11-22T02:00:00Z");
    cr_expect(qos_mark(comment) == mark && note_of(comment).empty());
    const std::vector<Avoided> avoid = {{"gpu1", 1795312800}};
    comment = with_note(comment, "lost gpu1: requeued", avoid);
    cr_expect_str_eq(
        comment.c_str(),
        "paid | rgpu: uses what is over, in place of QOS physics since 2026-11-22T02:00:00Z; lost "
        "gpu1: requeued; avoids gpu1 until 2026-11-22T02:00:00Z");
    cr_expect(qos_mark(comment) == mark && avoided(comment, 0) == avoid);
    comment = with_qos_mark(comment, {"", 0, 1795316400});
    cr_expect_str_eq(comment.c_str(),
                     "paid | rgpu: stays in its QOS until 2026-11-22T03:00:00Z; lost gpu1: "
                     "requeued; avoids gpu1 until 2026-11-22T02:00:00Z");
    cr_expect_eq(qos_mark(comment).stays, 1795316400);
    comment = with_qos_mark(comment, {});
    cr_expect_str_eq(comment.c_str(),
                     "paid | rgpu: lost gpu1: requeued; avoids gpu1 until 2026-11-22T02:00:00Z");
    cr_expect_str_eq(with_qos_mark(with_qos_mark("paid", mark), {}).c_str(), "paid");
    cr_expect_str_eq(with_qos_mark(with_qos_mark("", mark), {}).c_str(), "");
}

Test(record, no_note_reads_as_a_mark)
{
    const std::string mark = "uses what is over, in place of QOS boss since 2026-11-22T02:00:00Z";
    for (const std::string &before : {std::string(), std::string("paid")})
        for (const std::string &note :
             {mark, mark + "; x", "no server 'a | rgpu: " + mark + "; b'", "rgpu: " + mark})
            cr_expect(qos_mark(with_note(before, note, {})) == QosMark(), "%s", note.c_str());
    cr_expect(qos_mark(mark) == QosMark(), "it is not ours");
    cr_expect(qos_mark("rgpu: uses what is over, in place of QOS boss since today") == QosMark());
    cr_expect(qos_mark("rgpu: stays in its QOS until ; x") == QosMark());
}
