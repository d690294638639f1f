// SPDX-License-Identifier: Apache-2.0
// Slurm's own options for GPUs, answered and translated.
#include <criterion/criterion.h>

#include "plugin/job_submit/gpu_habits.h"

using namespace rgpu;
using namespace rgpu::plugin;

static GpuHabits translated()
{
    GpuHabits asked;
    asked.batch = asked.translate = true;
    return asked;
}

static std::string gres(const Submission &job, const GpuHabits &asked = translated())
{
    auto out = translate_habits(job, asked);
    cr_assert(out && *out, "%s", out ? "nothing" : out.error().text.c_str());
    return (*out)->tres_per_node;
}

static std::string refusal(const Submission &job, const GpuHabits &asked = {})
{
    auto out = translate_habits(job, asked);
    return out ? "" : out.error().text;
}

Test(gpu_habits, leaves_jobs_without_gpus_alone)
{
    Submission job;
    for (const char *tres : {"gres:rgpu:2,gres:mygpu:1", "gres:gpu:0", "gres:rgpu:1,gres:gpu:0"}) {
        job.tres_per_node = tres;
        auto out = translate_habits(job, {});
        cr_expect(out && !*out, "%s", tres);
    }
}

Test(gpu_habits, counts_by_node)
{
    Submission job;
    job.tres_per_job = "gres:gpu:4";
    cr_expect(gres(job) == "gres:rgpu:4");
    job.min_nodes = job.max_nodes = 2;
    cr_expect(gres(job) == "gres:rgpu:2");
    job.max_nodes = 4;
    cr_expect(refusal(job, translated()).find("by node, with --gres=rgpu:N") != std::string::npos,
              "a range of nodes");
    Submission tasks;
    tasks.tres_per_task = "gres/gpu:a100:2";
    tasks.min_nodes = tasks.max_nodes = 2;
    tasks.tasks = 6;
    cr_expect(gres(tasks) == "gres/rgpu:a100:6");
    tasks.tasks = 5;
    cr_expect(!refusal(tasks, translated()).empty());
    tasks.tasks_per_node = 4;
    cr_expect(gres(tasks) == "gres/rgpu:a100:8");
    Submission node;
    node.tres_per_node = "gres:gpu,gres:tape:1";
    cr_expect(gres(node) == "gres:tape:1,gres:rgpu:1");
}

Test(gpu_habits, turns_what_counts_by_gpu_into_what_counts_by_task_and_node)
{
    Submission job;
    job.tres_per_node = "gres:gpu:2";
    job.tasks = 4;
    GpuHabits asked = translated();
    asked.cpus_per_tres = "gres:gpu:3";
    asked.mem_per_tres = "gres:gpu:1024";
    auto out = translate_habits(job, asked);
    cr_assert(out && *out);
    cr_expect((*out)->cpus_per_task == 2u, "six of a node, for four tasks");
    cr_expect((*out)->memory == 2048ul);
}

Test(gpu_habits, says_what_to_write)
{
    Submission job;
    job.tres_per_job = "gres:gpu:2";
    cr_expect(refusal(job).find("--gpus=2: ") == 0);
    cr_expect(refusal(job).find("with --gres=rgpu:2") != std::string::npos);
    job.tres_per_job = "gres:gpu:a100:2";
    cr_expect(refusal(job).find("--gpus=a100:2: ") == 0);
    job.tres_per_job = "gres:gpu:rgpu:2";
    cr_expect(refusal(job).find("with --gres=rgpu:2") != std::string::npos, "%s",
              refusal(job).c_str());
    job.tres_per_job = "gres:gpu:2";
    GpuHabits interactive = translated();
    interactive.batch = false;
    cr_expect(refusal(job, interactive).find("with --gres=rgpu:2") != std::string::npos,
              "its step would ask again");
    Submission both;
    both.tres_per_node = "gres:rgpu:1,gres:gpu:1";
    cr_expect(refusal(both, translated()).find("leave it out") != std::string::npos);
    Submission ours;
    ours.tres_per_node = "gres:rgpu:1";
    GpuHabits processors;
    processors.cpus_per_tres = "gres:gpu:2";
    cr_expect(refusal(ours, processors).find("--cpus-per-gpu: ") == 0);
    Submission socket;
    socket.tres_per_socket = "gres:gpu:1";
    cr_expect(refusal(socket, translated()).find("--gpus-per-socket: ") == 0);
}
