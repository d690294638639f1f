// SPDX-License-Identifier: Apache-2.0
// What becomes of jobs at submit and at update.
#include <criterion/criterion.h>

#include "plugin/job_submit/decision.h"

using namespace rgpu;
using namespace rgpu::plugin;

static slurm::Snapshot pool()
{
    auto out = slurm::parse_snapshot(
        "rgpu-pool 1\ntotal 2 4\nserver gpu1 2 2147483648\nserver gpu2 2 2147483648\n");
    cr_assert(out);
    return *out;
}

static Submission asking(std::string_view tres)
{
    Submission out;
    out.tres_per_node = tres;
    return out;
}

static Terms accepted(const Submission &job)
{
    slurm::Snapshot snapshot = pool();
    auto terms = judge_submission(job, &snapshot);
    cr_assert(terms, "refused: %s", terms ? "" : terms.error().text.c_str());
    cr_assert(*terms, "left alone");
    return **terms;
}

static std::string refused(const Submission &job)
{
    slurm::Snapshot snapshot = pool();
    auto terms = judge_submission(job, &snapshot);
    cr_assert(!terms);
    cr_expect(terms.error().kind == ErrorKind::invalid);
    return terms.error().text;
}

Test(decision, leaves_other_jobs_alone)
{
    auto terms = judge_submission(asking("gres:gpu:1"), nullptr);
    cr_assert(terms);
    cr_expect(!*terms);
}

Test(decision, sells_hundredths_of_a_gpu_on_each_node)
{
    cr_expect(accepted(asking("gres:rgpu:2")).licences == "rgpu:200");
    Submission job = asking("gres:rgpu");
    job.min_nodes = job.max_nodes = 3;
    Terms terms = accepted(job);
    cr_expect(terms.licences == "rgpu:300" && terms.nodes.least == 3 && !terms.nodes.range());
    job.options.share = "30-100";
    cr_expect(accepted(job).licences == "rgpu:90", "the least is sold");
    job.options.share = "0-100";
    cr_expect(refused(job).find("--rgpu-mem") != std::string::npos);
    job.options.memory = "1G";
    cr_expect(accepted(job).licences == "rgpu:3", "best effort costs one for each GPU");
}

Test(decision, a_span_is_sold_as_any_other)
{
    Submission job = asking("gres:rgpu:3");
    cr_expect(refused(job).find("--rgpu-span") != std::string::npos);
    job.options.span = true;
    cr_expect(accepted(job).licences == "rgpu:300");
    cr_expect(job.options.any());
}

Test(decision, keeps_other_licences_and_replaces_a_forged_one)
{
    Submission job = asking("gres:rgpu:2");
    job.licences = "rgpu:1,matlab:1";
    cr_expect(accepted(job).licences == "matlab:1,rgpu:200");
}

Test(decision, refuses_licences_without_gpus)
{
    Submission job;
    job.licences = "rgpu:100";
    cr_expect(refused(job).find("--gres=rgpu:N") != std::string::npos);
}

Test(decision, refuses_gpus_by_job_socket_or_task)
{
    for (auto member :
         {&Submission::tres_per_job, &Submission::tres_per_socket, &Submission::tres_per_task}) {
        Submission job;
        job.*member = "gres:rgpu:2";
        cr_expect(refused(job).find("by node, with --gres=rgpu:N") != std::string::npos);
        job.*member = "gres:gpu:2";
        auto terms = judge_submission(job, nullptr);
        cr_expect(terms && !*terms);
    }
}

Test(decision, of_a_range_of_nodes_the_most_that_fit_are_paid)
{
    Submission job = asking("gres:rgpu:1");
    job.min_nodes = 1;
    job.max_nodes = 3;
    Terms terms = accepted(job);
    cr_expect(terms.licences == "rgpu:300" && terms.nodes.least == 1 && terms.nodes.most == 3 &&
              terms.each == 100);
    cr_expect(to_text(terms.nodes) == "1-3");
    job.max_nodes = 100;
    cr_expect(accepted(job).nodes.most == 4, "the pool has four GPUs");
    job.min_nodes = 5;
    cr_expect(refused(job).find("room for 4 such nodes") != std::string::npos);
}

Test(decision, reads_the_nodes_that_it_wrote)
{
    cr_expect(slurm::parse_nodes("2").least == 2 && slurm::parse_nodes("2").most == 2);
    cr_expect(slurm::parse_nodes("1-4").least == 1 && slurm::parse_nodes("1-4").most == 4);
    for (const char *text : {"", "x", "1-", "-4", "4-1", "1-2-3", "1 "})
        cr_expect(slurm::parse_nodes(text).least == 0, "'%s' was taken", text);
}

Test(decision, without_a_number_of_nodes_there_is_one)
{
    Submission job = asking("gres:rgpu:1");
    job.tasks = 4;
    cr_expect(accepted(job).nodes.most == 1, "tasks alone stay on one node");
    job.tasks_per_node = 2;
    cr_expect(accepted(job).nodes.least == 2);
    job.tasks = {};
    job.tasks_per_node = {};
    job.named_nodes = 2;
    cr_expect(accepted(job).nodes.least == 2);
}

Test(decision, refuses_what_can_never_fit_only_where_the_pool_is_known)
{
    cr_expect(refused(asking("gres:rgpu:9")).find("no server has more than 2") !=
              std::string::npos);
    auto terms = judge_submission(asking("gres:rgpu:9"), nullptr);
    cr_assert(terms && *terms);
    cr_expect((*terms)->licences == "rgpu:900");
}

Test(decision, checks_forged_options_again)
{
    Submission job = asking("gres:rgpu:1");
    job.options.share = "0";
    refused(job);
    job.options.share = {};
    job.options.memory = "lots";
    refused(job);
}

static KnownJob pending()
{
    KnownJob out;
    out.licences = "matlab:1,rgpu:200";
    out.nodes = {1, 1};
    return out;
}

static std::optional<std::string> updated(const KnownJob &job, const Update &update)
{
    slurm::Snapshot snapshot = pool();
    auto licences = judge_update(job, update, &snapshot);
    cr_assert(licences, "refused: %s", licences ? "" : licences.error().text.c_str());
    return *licences;
}

static void update_refused(const KnownJob &job, const Update &update)
{
    slurm::Snapshot snapshot = pool();
    cr_expect(!judge_update(job, update, &snapshot));
}

Test(decision, nobody_lowers_licences_and_keeps_the_gpus)
{
    Update update;
    for (bool running : {false, true}) {
        KnownJob job = pending();
        job.running = running;
        for (const char *licences : {"rgpu:100", "rgpu:0", "matlab:1,rgpu:1", "rgpu:300"}) {
            update.licences = licences;
            update_refused(job, update);
        }
        update.licences = "";
        cr_expect(updated(job, update) == "rgpu:200", "dropping all keeps rgpu's");
        update.licences = "octave:2";
        cr_expect(updated(job, update) == "octave:2,rgpu:200");
        update.licences = "rgpu:200";
        cr_expect(updated(job, update) == "rgpu:200");
    }
}

Test(decision, other_gpus_of_a_pending_job_are_other_licences)
{
    Update update;
    update.tres_per_node = "gres:rgpu:1";
    cr_expect(updated(pending(), update) == "matlab:1,rgpu:100");
    for (const char *none : {"gres:none", "gres:rgpu:0", "", "gres:tape:1"}) {
        update.tres_per_node = none;
        update_refused(pending(), update);  // its node does not start a script without its GPUs
    }
    KnownJob job = pending();
    job.options.share = "50";
    update.tres_per_node = "gres:rgpu:2";
    cr_expect(updated(job, update) == "matlab:1,rgpu:100");
    update.licences = "rgpu:1";
    update_refused(job, update);
    update.licences = "rgpu:100,x";
    cr_expect(updated(job, update) == "x,rgpu:100");
}

Test(decision, only_slurm_itself_counts_the_nodes_of_a_range)
{
    KnownJob job = pending();
    job.nodes = {1, 2};
    job.each = 100;
    Update update;
    update.licences = "matlab:1,rgpu:100";
    update_refused(job, update);
    update.by_slurm = true;
    cr_expect(updated(job, update) == "matlab:1,rgpu:100");
    job.running = true;
    cr_expect(updated(job, update) == "matlab:1,rgpu:100");
    update.licences = "rgpu:0";
    update_refused(job, update);
    job.running = false;
    for (const char *licences : {"rgpu:0", "rgpu:50", "rgpu:150", "rgpu:300"}) {
        update.licences = licences;
        update_refused(job, update);
    }
    update = {};
    update.tres_per_node = "gres:rgpu:1";
    update_refused(job, update);
}

Test(decision, a_type_is_part_of_the_terms_and_stays)
{
    slurm::Snapshot snapshot = *slurm::parse_snapshot(
        "rgpu-pool 1\ntotal 2 4\nserver gpu1 2 2147483648\nserver gpu2 2 2147483648\n"
        "model gpu1 2 2147483648 80 13000 NVIDIA A100\n"
        "model gpu2 2 2147483648 90 13000 NVIDIA H100\n");
    auto judged = judge_submission(asking("gres:rgpu:h100:2"), &snapshot);
    cr_assert(judged && *judged);
    cr_expect((*judged)->licences == "rgpu:200" && (*judged)->type == "h100");
    cr_expect(!judge_submission(asking("gres:rgpu:b200:1"), &snapshot));
    Submission both = asking("gres:rgpu:h100:1");
    const slurm::FilterOption *name = nullptr;
    for (const slurm::FilterOption &option : slurm::filter_options())
        if (std::string_view(option.name) == "rgpu-name") name = &option;
    cr_assert(name);
    both.options.filters = {{name, "h100"}};
    cr_expect(!judge_submission(both, &snapshot), "the GPU is named twice");

    KnownJob job = pending();
    job.type = "h100";
    Update update;
    update.tres_per_node = "gres:rgpu:h100:1";
    cr_expect(updated(job, update) == "matlab:1,rgpu:100");
    update.tres_per_node = "gres:rgpu:a100:1";
    update_refused(job, update);
    update.tres_per_node = "gres:rgpu:1";
    update_refused(job, update);
}

Test(decision, a_type_is_spelt_as_slurm_has_it)
{
    Submission job = asking("gres:rgpu:A100:1");
    job.types_sold = {"a100", "h100"};
    cr_expect(refused(job).find("ask with --gres=rgpu:a100:1") != std::string::npos);
    job.tres_per_node = "gres:rgpu:v100:1";
    slurm::Snapshot snapshot = pool();
    cr_expect(judge_submission(job, &snapshot), "Slurm need not sell each type");
}

Test(decision, gpus_of_a_running_job_stay)
{
    KnownJob job = pending();
    job.running = true;
    Update update;
    job.id = "4711";
    update.tres_per_node = "gres:rgpu:1";
    update_refused(job, update);
    auto judged = judge_update(job, update, nullptr);
    cr_expect(judged.error().text.find("rgpu resize 4711 --share") != std::string::npos,
              "what does it instead is said: %s", judged.error().text.c_str());
}

Test(decision, the_licences_of_a_running_job_follow_its_leases_by_slurm_alone)
{
    KnownJob job = pending();
    job.id = "4711";
    Update update;
    update.licences = "octave:2,rgpu:100";
    for (bool running : {false, true})
        for (bool by_slurm : {false, true}) {
            job.running = running;
            update.by_slurm = by_slurm;
            if (running && by_slurm)
                cr_expect(updated(job, update) == "octave:2,rgpu:100");
            else
                update_refused(job, update);
        }
    update.by_slurm = false;
    auto judged = judge_update(job, update, nullptr);
    cr_expect(judged.error().text.find("rgpu resize 4711") != std::string::npos, "%s",
              judged.error().text.c_str());
}

Test(decision, an_update_past_the_pool_is_refused)
{
    Update update;
    update.tres_per_node = "gres:rgpu:9";
    update_refused(pending(), update);
}

Test(decision, the_number_of_nodes_stays_as_counted)
{
    Update update;
    update.min_nodes = 2;
    update_refused(pending(), update);
    update.min_nodes = 1;
    cr_expect(!updated(pending(), update));
    update.max_nodes = 4;
    update_refused(pending(), update);
    KnownJob running = pending();
    running.nodes = {2, 2};
    running.running = true;
    update.min_nodes = update.max_nodes = 1;
    cr_expect(!updated(running, update), "a running job may shrink: it keeps the licences");
}

Test(decision, other_updates_pass)
{
    KnownJob job;
    cr_expect(!updated(job, Update{}));
    Update update;
    update.licences = "matlab:1";
    update.min_nodes = 4;
    cr_expect(!updated(job, update));
    cr_expect(!updated(pending(), Update{}));
}

Test(decision, a_job_gains_no_gpus_after_submit)
{
    KnownJob job;
    Update update;
    update.tres_per_node = "gres:rgpu:1";
    update_refused(job, update);
    update = {};
    update.licences = "rgpu:100";
    update_refused(job, update);
}

Test(decision, an_unknown_job_is_left_as_it_is)
{
    KnownJob job;
    job.known = false;
    Update update;
    update.licences = "";
    update_refused(job, update);
    update = {};
    update.min_nodes = 2;
    cr_expect(!updated(job, update));
}
