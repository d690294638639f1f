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
