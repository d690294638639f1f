// SPDX-License-Identifier: Apache-2.0
// Counts what Slurm's options for GPUs ask for by node.
#include "plugin/job_submit/gpu_habits.h"

#include <algorithm>
#include <charconv>

#include "util/next_token.h"

namespace rgpu::plugin {
namespace {

constexpr std::string_view kGpu = "gpu";

// The elements of a TRES list that are not of GPUs, and whether there are others.
struct Parts {
    std::string others, prefix;
    bool gpus = false;
};

Parts parts_of(std::string_view tres)
{
    Parts out;
    while (!tres.empty()) {
        std::string_view element = next_token(tres, ",;"), rest = element;
        const bool prefixed = rest.starts_with("gres:") || rest.starts_with("gres/");
        if (prefixed) rest.remove_prefix(5);
        if (rest.substr(0, rest.find_first_of(":=")) == kGpu) {
            out.gpus = true;
            out.prefix = element.substr(0, prefixed ? 5 : 0);
        } else if (!element.empty()) {
            (out.others += out.others.empty() ? "" : ",") += element;
        }
    }
    return out;
}

// "gres:gpu:4096": the number behind the last colon.
std::optional<unsigned long> number_behind(std::string_view text)
{
    unsigned long value = 0;
    std::string_view last = text.substr(text.find_last_of(":=") + 1);
    auto [stop, ec] = std::from_chars(last.data(), last.data() + last.size(), value);
    return ec == std::errc() && stop == last.data() + last.size() ? std::optional(value)
                                                                  : std::nullopt;
}

// How the job is spread; nothing where Slurm may choose.
struct Spread {
    std::optional<unsigned> nodes, tasks_of_node;
};

Spread spread_of(const Submission &job)
{
    Spread out;
    const unsigned least = std::max({job.min_nodes.value_or(0), job.named_nodes, 1u});
    if (job.max_nodes.value_or(least) <= least) out.nodes = least;
    if (job.tasks_per_node)
        out.tasks_of_node = job.tasks_per_node;
    else if (const unsigned tasks = job.tasks.value_or(least); out.nodes && tasks % least == 0)
        out.tasks_of_node = tasks / least;
    return out;
}

// "2", "a100:2"
std::string typed(const slurm::TresGpus &gpus)
{
    return (gpus.type.empty() ? "" : gpus.type + ":") + std::to_string(gpus.count);
}

// --gpus=rgpu:2 means the pool's, of any type.
std::string gres_of(const slurm::TresGpus &gpus)
{
    return "rgpu:" + (gpus.type == "rgpu" ? std::to_string(gpus.count) : typed(gpus));
}

// What the option asks for on each node; count 0 where that cannot be told.
struct Asked {
    std::string option;  // as it is typed; empty where no GPU is asked for, as by --gres=gpu:0
    slurm::TresGpus gpus;
};

Result<Asked> asked_for(const Submission &job, const Spread &spread)
{
    auto node = slurm::gpus_in_tres(job.tres_per_node, kGpu),
         whole = slurm::gpus_in_tres(job.tres_per_job, kGpu),
         task = slurm::gpus_in_tres(job.tres_per_task, kGpu),
         socket = slurm::gpus_in_tres(job.tres_per_socket, kGpu);
    for (auto *one : {&node, &whole, &task, &socket})
        if (!*one) return one->error();
    // Slurm has one word for both.
    if (node->count)
        return Asked{"--gres=gpu:" + typed(*node) + " (--gpus-per-node=" + typed(*node) + ")",
                     *node};
    Asked out;
    if (whole->count) {
        out = {"--gpus=" + typed(*whole), *whole};
        const unsigned nodes = spread.nodes.value_or(0);
        out.gpus.count = nodes && whole->count % nodes == 0 ? whole->count / nodes : 0;
    } else if (task->count) {
        out = {"--gpus-per-task=" + typed(*task), *task};
        out.gpus.count = task->count * spread.tasks_of_node.value_or(0);
    } else if (socket->count) {
        out.option = "--gpus-per-socket";
    }
    return out;
}

Error refused(std::string text) { return Error{ErrorKind::invalid, std::move(text)}; }

constexpr const char *kNone = ": no node of this cluster has a GPU of its own (gres/gpu); ";

// The options that count by GPU, without which there may be GPUs of the pool.
std::string_view option_by_gpu(const GpuHabits &asked)
{
    return !asked.cpus_per_tres.empty()  ? "--cpus-per-gpu"
           : !asked.mem_per_tres.empty() ? "--mem-per-gpu"
           : !asked.tres_bind.empty()    ? "--gpu-bind"
           : !asked.tres_freq.empty()    ? "--gpu-freq"
                                         : "";
}

const char *instead_of(std::string_view option)
{
    return option == "--cpus-per-gpu"  ? "ask for processors with --cpus-per-task"
           : option == "--mem-per-gpu" ? "ask for memory of the node with --mem"
           : option == "--gpu-bind"    ? "give each task its GPUs with --rgpu-bind"
                                    : "leave it out: GPUs of the pool run as their server has them";
}

}  // namespace

Result<std::optional<Translation>> translate_habits(const Submission &job, const GpuHabits &asked)
{
    const std::string_view by_gpu = option_by_gpu(asked);
    const Spread spread = spread_of(job);
    auto gpus = asked_for(job, spread);
    if (!gpus) return gpus.error();
    if (gpus->option.empty() && by_gpu.empty()) return std::optional<Translation>{};
    if (gpus->option.empty()) return refused(std::string(by_gpu) + kNone + instead_of(by_gpu));
    auto ours = slurm::gpus_in_tres(job.tres_per_node);
    if (!ours) return ours.error();
    if (ours->count)
        return refused(gpus->option + kNone + "leave it out: --gres=rgpu asks for all");
    if (gpus->gpus.count == 0)
        return refused(gpus->option + kNone +
                       "ask for GPUs of the pool by node, with --gres=rgpu:N");
    const std::string write = "--gres=" + gres_of(gpus->gpus);
    if (!asked.translate || !asked.batch)
        return refused(gpus->option + kNone + "ask for GPUs of the pool with " + write +
                       (by_gpu.empty() ? "" : ", and " + std::string(instead_of(by_gpu))));
    Translation out;
    Parts node = parts_of(job.tres_per_node);
    std::string prefix = "gres:";
    for (std::string_view tres : {job.tres_per_node, job.tres_per_job, job.tres_per_task})
        if (Parts parts = parts_of(tres); parts.gpus) prefix = parts.prefix;
    out.tres_per_node = (node.others.empty() ? "" : node.others + ",") + prefix +
                        gres_of(gpus->gpus);
    const unsigned tasks = std::max(1u, spread.tasks_of_node.value_or(1));
    if (auto cpus = number_behind(asked.cpus_per_tres))
        out.cpus_per_task = static_cast<unsigned>((*cpus * gpus->gpus.count + tasks - 1) / tasks);
    if (auto memory = number_behind(asked.mem_per_tres)) out.memory = *memory * gpus->gpus.count;
    out.told = gpus->option + " is " + write + " on this cluster (gpus_mean_rgpu)";
    return std::optional(out);
}

}  // namespace rgpu::plugin
