// Judges submissions and updates; decision.h says by what rules.
#include "plugin/job_submit/decision.h"

#include <algorithm>

#include "plugin/licences.h"

namespace rgpu::plugin {
namespace {

Error refused(std::string text)
{
    return Error{ErrorKind::invalid, std::move(text)};
}

std::string number(unsigned long n)
{
    return std::to_string(n);
}

// GPUs of the pool are asked for by node: licences are bought by node, and servers chosen for one.
Result<void> refuse_other_tres(const Submission &job)
{
    struct {
        std::string_view tres;
        const char *what;
    } others[] = {{job.tres_per_job, "job"}, {job.tres_per_socket, "socket"}, {job.tres_per_task, "task"}};
    for (const auto &other : others) {
        auto gpus = gpus_in_tres(other.tres);
        if (!gpus)
            return gpus.error();
        if (*gpus != 0)
            return refused(std::string("GPUs of the pool cannot be asked for by ") + other.what +
                           "; ask for them by node, with --gres=rgpu:N");
    }
    return {};
}

Result<Request> request_of(std::string_view tres, std::optional<std::string_view> share,
                           std::optional<std::string_view> memory)
{
    Request out;
    auto gpus = gpus_in_tres(tres);
    if (!gpus)
        return gpus.error();
    out.gpus = *gpus;
    if (share) {
        auto value = parse_share(*share);
        if (!value)
            return value.error();
        out.share = *value;
    }
    if (memory) {
        auto value = parse_memory(*memory);
        if (!value)
            return value.error();
        out.memory = *value;
    }
    if (out.gpus && out.share.least == 0 && !out.memory)
        return refused("a share that begins at 0 has no memory of its own; add --rgpu-mem, as in --rgpu-mem=8G");
    return out;
}

// How many nodes the job will have. A range has no answer, and neither has a number of tasks that
// Slurm would spread as it likes: such a job gets one node.
Result<unsigned> nodes_of(const Submission &job)
{
    unsigned least = std::max({job.min_nodes.value_or(0), job.named_nodes, 1u});
    if (!job.min_nodes && job.tasks && job.tasks_per_node.value_or(0) != 0)
        least = std::max(least, (*job.tasks - 1) / *job.tasks_per_node + 1);
    unsigned most = job.max_nodes.value_or(0);
    if (most > least)
        return refused("the number of nodes must be certain, because licences are counted before nodes are "
                       "chosen, but " + number(least) + " to " + number(most) +
                       " were asked for; ask for one number, as in -N " + number(most));
    return least;
}

Result<void> refuse_unfit(const Snapshot *pool, const Request &request, unsigned nodes)
{
    return pool ? can_ever_fit(*pool, request, nodes) : Result<void>{};
}

}  // namespace

Result<std::optional<Terms>> judge_submission(const Submission &job, const Snapshot *pool)
{
    if (auto other = refuse_other_tres(job); !other)
        return other.error();
    auto request = request_of(job.tres_per_node, job.share, job.memory);
    if (!request)
        return request.error();
    if (request->gpus == 0) {
        if (names_rgpu(job.licences))
            return refused("licences of rgpu alone give no GPU; ask for GPUs with --gres=rgpu:N, which counts "
                           "the licences itself");
        return std::optional<Terms>{};
    }
    auto nodes = nodes_of(job);
    if (!nodes)
        return nodes.error();
    if (auto fit = refuse_unfit(pool, *request, *nodes); !fit)
        return fit.error();
    auto licences = with_rgpu(job.licences, licences_for(request->gpus, request->share.least, *nodes));
    if (!licences)
        return licences.error();
    return std::optional<Terms>{Terms{*licences, *nodes}};
}

namespace {

Result<std::optional<std::string>> judge_update_without_gpus(const KnownJob &job, const Update &update)
{
    auto gpus = gpus_in_tres(update.tres_per_node.value_or(""));
    if (!gpus)
        return gpus.error();
    if (*gpus != 0)
        return refused(job.known ? "this job was submitted without GPUs of the pool; submit it again with "
                                   "--gres=rgpu:" + number(*gpus)
                                 : "this slurmctld does not tell what the job has; submit it again with "
                                   "--gres=rgpu:" + number(*gpus));
    if (update.licences && (!job.known || names_rgpu(*update.licences)))
        return refused("licences of rgpu follow from --gres=rgpu:N and cannot be set");
    return std::optional<std::string>{};
}

Result<void> refuse_other_nodes(const KnownJob &job, const Update &update)
{
    unsigned least = update.min_nodes.value_or(job.nodes);
    unsigned most = update.max_nodes.value_or(0);
    bool shrinks = job.running && least <= job.nodes && most <= job.nodes;
    bool same = least == job.nodes && (most == 0 || most == job.nodes);
    if (same || shrinks)
        return {};
    return refused("the job's licences are counted for " + number(job.nodes) +
                   (job.nodes == 1 ? " node" : " nodes") + "; submit it again to have another number");
}

// The licences of rgpu that the job must have after the update.
Result<unsigned long> licences_after(const KnownJob &job, const Update &update, const Snapshot *pool)
{
    if (!update.tres_per_node)
        return rgpu_licences(job.licences);
    auto request = request_of(*update.tres_per_node, job.share, job.memory);
    if (!request)
        return request.error();
    if (auto fit = refuse_unfit(pool, *request, job.nodes); !fit)
        return fit.error();
    return licences_for(request->gpus, request->share.least, job.nodes);
}

}  // namespace

Result<std::optional<std::string>> judge_update(const KnownJob &job, const Update &update, const Snapshot *pool)
{
    if (job.nodes == 0)
        return judge_update_without_gpus(job, update);
    if (auto nodes = refuse_other_nodes(job, update); !nodes)
        return nodes.error();
    if (!update.tres_per_node && !update.licences)
        return std::optional<std::string>{};
    if (update.tres_per_node && job.running)
        return refused("the job runs already, on the GPUs it asked for; submit another to have more or fewer");
    auto count = licences_after(job, update, pool);
    if (!count)
        return count.error();
    if (update.licences && names_rgpu(*update.licences) && rgpu_licences(*update.licences) != *count)
        return refused("the job's GPUs need licences rgpu:" + number(*count) +
                       "; they follow from --gres=rgpu:N and cannot be set to another number");
    auto licences = with_rgpu(update.licences.value_or(job.licences), *count);
    if (!licences)
        return licences.error();
    return std::optional<std::string>{*licences};
}

}  // namespace rgpu::plugin
