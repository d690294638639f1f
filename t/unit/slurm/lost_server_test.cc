// SPDX-License-Identifier: Apache-2.0
// What becomes of a job whose server is gone.
#include <criterion/criterion.h>

#include "slurm/jobs/lost_server.h"

using namespace rgpu::slurm;

static JobRecord job(bool batch, bool requeue)
{
    JobRecord out;
    out.batch = batch;
    out.requeue = requeue;
    return out;
}

Test(lost_server, a_batch_job_goes_as_rgpu_conf_says)
{
    for (bool running : {false, true}) {
        cr_expect(fate_of(job(true, true), "requeue", running) == Fate::requeue);
        cr_expect(fate_of(job(true, true), "hold", running) == Fate::hold);
    }
    cr_expect(fate_of(job(true, true), "fail", true) == Fate::end);
    cr_expect(fate_of(job(true, true), "fail", false) == Fate::leave, "it has failed by itself");
}

Test(lost_server, a_job_that_slurm_cannot_requeue_is_left)
{
    for (bool running : {false, true})
        for (const char *how : {"requeue", "hold"}) {
            cr_expect(fate_of(job(false, true), how, running) == Fate::leave, "srun, salloc");
            cr_expect(fate_of(job(true, false), how, running) == Fate::leave, "--no-requeue");
        }
    cr_expect(fate_of(job(false, true), "fail", true) == Fate::end);
}

Test(lost_server, only_a_job_that_failed_by_itself_did)
{
    JobRecord record;
    for (const char *reason : {"NonZeroExitCode", "JobLaunchFailure"}) {
        record.reason = reason;
        cr_expect(failed_by_itself(record));
    }
    for (const char *reason : {"None", "TimeLimit", "BeginTime", "NodeDown", ""}) {
        record.reason = reason;
        cr_expect(!failed_by_itself(record), "%s", reason);
    }
}

Test(lost_server, a_worker_that_died_is_remembered_through_other_notes)
{
    JobRecord record;
    record.comment =
        with_note("", "lost its worker on server gpu1 (worker 7 was ended by signal 9): requeued",
                  {{"gpu1", 1795312800}});
    for (int wait = 0; wait < 3; ++wait)
        record.comment = with_note("", "waited 9 s for its GPUs" + died_before(record.comment), {});
    cr_expect(record.comment == "rgpu: waited 9 s for its GPUs; a run before lost its worker on "
                                "server gpu1 (worker 7 was ended by signal 9)",
              "[%s]", record.comment.c_str());
    cr_expect(dies_again(record, {{"gpu2", std::string(kDied) + "gpu2 (...)"}}));
    cr_expect(died_before("rgpu: waited 9 s for its GPUs").empty());
}

Test(lost_server, a_worker_that_dies_twice_is_for_a_person)
{
    JobRecord record = job(true, true);
    const std::vector<LostServer> died = {{"gpu1", std::string(kDied) + "gpu1 (signal 9)"}},
                                  silent = {{"gpu1", "server gpu1: no answer"}};
    cr_expect(!dies_again(record, died), "the first time");
    record.comment = "rgpu: " + what_happened(died) + ": requeued";
    cr_expect(dies_again(record, died));
    cr_expect(!dies_again(record, silent));
}
