// SPDX-License-Identifier: Apache-2.0
// Judges submissions and updates; decision.h says by what rules.
#include "plugin/job_submit/decision.h"

#include <algorithm>

#include "slurm/terms/licences.h"

namespace rgpu::plugin {
namespace {

Error refused(std::string text) { return Error{ErrorKind::invalid, std::move(text)}; }

std::string number(unsigned long n) { return std::to_string(n); }

// GPUs of the pool are asked for by node: licences are bought by node, and servers chosen for one.
Result<void> refuse_other_tres(const Submission &job)
{
    struct {
        std::string_view tres;
        const char *what;
    } others[] = {
        {job.tres_per_job, "job"}, {job.tres_per_socket, "socket"}, {job.tres_per_task, "task"}};
    for (const auto &other : others) {
        auto gpus = slurm::gpus_in_tres(other.tres);
        if (!gpus) return gpus.error();
        if (gpus->count != 0)
            return refused(std::string("GPUs of the pool cannot be asked for by ") + other.what +
                           "; ask for them by node, with --gres=rgpu:N");
    }
    return {};
}

Result<slurm::Request> request_of(const slurm::TresGpus &gpus, const Options &options)
{
    slurm::Request out;
    out.gpus = gpus.count;
    out.type = gpus.type;
    out.span = options.span;
    if (options.share) {
        auto value = slurm::parse_share(*options.share);
        if (!value) return value.error();
        out.share = *value;
    }
    if (options.memory) {
        auto value = slurm::parse_memory(*options.memory);
        if (!value) return value.error();
        out.memory = *value;
    }
    for (const auto &[option, value] : options.filters)
        if (auto added = slurm::add_filter(*option, value, out.filters); !added)
            return added.error();
    if (out.gpus && out.share.least == 0 && !out.memory)
        return refused("a share that begins at 0 has no memory of its own; add --rgpu-mem, as in "
                       "--rgpu-mem=8G");
    if (!out.type.empty() && !out.filters.names.empty())
        return refused("a type (rgpu:" + out.type +
                       ") and --rgpu-name both name the GPU; give one of them");
    return out;
}

// How many nodes the job will have. Of a number of tasks that Slurm would spread as it likes
// nothing follows: such a job gets one node.
slurm::Nodes nodes_of(const Submission &job)
{
    unsigned least = std::max({job.min_nodes.value_or(0), job.named_nodes, 1u});
    if (!job.min_nodes && job.tasks && job.tasks_per_node.value_or(0) != 0)
        least = std::max(least, (*job.tasks - 1) / *job.tasks_per_node + 1);
    return {least, std::max(least, job.max_nodes.value_or(0))};
}

// Slurm's types have one spelling, and of another it only says that there is no such node.
Result<void> refuse_spelling(const slurm::Request &request, const std::vector<std::string> &sold)
{
    if (request.type.empty() || std::find(sold.begin(), sold.end(), request.type) != sold.end())
        return {};
    for (const std::string &type : sold)
        if (type.size() == request.type.size() && slurm::holds(type, request.type))
            return refused("rgpu:" + request.type + ": Slurm knows this type as " + type +
                           "; ask with --gres=rgpu:" + type + ":" + number(request.gpus));
    return {};
}

Result<void> refuse_unfit(const slurm::Snapshot *pool, const slurm::Request &request,
                          unsigned nodes)
{
    return pool ? slurm::can_ever_fit(*pool, request, nodes) : Result<void>{};
}

unsigned long licences_of_node(const slurm::Request &request)
{
    return slurm::licences_for(request.gpus, request.share.least, 1);
}

}  // namespace

Result<std::optional<Terms>> judge_submission(const Submission &job, const slurm::Snapshot *pool)
{
    if (auto other = refuse_other_tres(job); !other) return other.error();
    auto gpus = slurm::gpus_in_tres(job.tres_per_node);
    if (!gpus) return gpus.error();
    auto request = request_of(*gpus, job.options);
    if (!request) return request.error();
    if (request->gpus == 0) {
        if (slurm::names_rgpu(job.licences))
            return refused(
                "licences of rgpu alone give no GPU; ask for GPUs with --gres=rgpu:N, which counts "
                "the licences itself");
        return std::optional<Terms>{};
    }
    if (auto spelt = refuse_spelling(*request, job.types_sold); !spelt) return spelt.error();
    slurm::Nodes nodes = nodes_of(job);
    if (auto fit = refuse_unfit(pool, *request, nodes.least); !fit) return fit.error();
    if (pool && nodes.range())
        nodes.most = std::max(nodes.least, slurm::nodes_that_fit(*pool, *request, nodes.most));
    unsigned long each = licences_of_node(*request);
    std::vector<std::string> types = slurm::types_of(pool, *request, job.types_sold);
    auto licences = slurm::with_rgpu(job.licences, slurm::all_of_types(each * nodes.most, types));
    if (!licences) return licences.error();
    return std::optional<Terms>{Terms{*licences, nodes, each, request->type, types}};
}

namespace {

Result<std::optional<std::string>> judge_update_without_gpus(const KnownJob &job,
                                                             const Update &update)
{
    auto gpus = slurm::gpus_in_tres(update.tres_per_node.value_or(""));
    if (!gpus) return gpus.error();
    if (gpus->count != 0)
        return refused(
            job.known ? "this job was submitted without GPUs of the pool; submit it again with "
                        "--gres=rgpu:" +
                            number(gpus->count)
                      : "this slurmctld does not tell what the job has; submit it again with "
                        "--gres=rgpu:" +
                            number(gpus->count));
    if (update.licences && (!job.known || slurm::names_rgpu(*update.licences)))
        return refused("licences of rgpu follow from --gres=rgpu:N and cannot be set");
    return std::optional<std::string>{};
}

Result<void> refuse_other_nodes(const KnownJob &job, const Update &update)
{
    unsigned least = update.min_nodes.value_or(job.nodes.least);
    unsigned most = update.max_nodes.value_or(0);
    bool shrinks = job.running && least <= job.nodes.most && most <= job.nodes.most;
    bool same = least == job.nodes.least && (most == 0 || most == job.nodes.most);
    if (same || shrinks) return {};
    return refused("the job's licences are counted for " + slurm::to_text(job.nodes) +
                   (job.nodes.most == 1 ? " node" : " nodes") +
                   "; submit it again to have another number");
}

std::string resize_advice(const KnownJob &job)
{
    return "rgpu resize " + (job.id.empty() ? "JOB" : std::string(job.id)) +
           " --share 50 --mem 20G changes their share and memory while it runs";
}

// The request that the job would have with this gres.
Result<slurm::Request> request_after(const KnownJob &job, std::string_view tres,
                                     const slurm::Snapshot *pool)
{
    if (job.running)
        return refused("the job runs already, on the GPUs it asked for; " + resize_advice(job) +
                       "; submit another to have more or fewer");
    if (job.nodes.range())
        return refused("the job's number of nodes is a range, for which its licences were counted; "
                       "submit it again to have "
                       "other GPUs");
    auto gpus = slurm::gpus_in_tres(tres);
    if (!gpus) return gpus.error();
    if (gpus->count == 0)
        return refused("the job was submitted with GPUs of the pool, which its nodes wait for; "
                       "submit it again to have none");
    if (gpus->type != job.type) {
        std::string now = job.type.empty() ? "without a type" : "of type " + std::string(job.type);
        return refused("the job asks for GPUs " + now +
                       ", and an update cannot change that; write gres=rgpu:" +
                       (job.type.empty() ? "" : std::string(job.type) + ":") + number(gpus->count) +
                       ", or submit it again");
    }
    auto request = request_of(*gpus, job.options);
    if (!request) return request;
    if (auto fit = refuse_unfit(pool, *request, job.nodes.least); !fit) return fit.error();
    return request;
}

// The same licences for another sum. Of types the prolog may tell others, when it knows them.
slurm::OwnLicences licences_after(const KnownJob &job, const Update &update, unsigned long sum)
{
    slurm::OwnLicences now = slurm::own_licences(job.licences);
    if (update.by_slurm && update.licences && slurm::names_rgpu(*update.licences)) {
        slurm::OwnLicences asked = slurm::own_licences(*update.licences);
        for (auto &[type, count] : asked.types) count = std::min(count, sum);
        return {sum, std::move(asked.types)};
    }
    for (auto &[type, count] : now.types)
        if (now.sum != 0) count = count * sum / now.sum;
    return {sum, std::move(now.types)};
}

// Licences for one of the numbers of nodes of a range, by the prolog that knows it, or its epilog.
bool counts_nodes(const KnownJob &job, const Update &update, unsigned long count)
{
    return update.by_slurm && job.nodes.range() && job.each != 0 && count % job.each == 0 &&
           count / job.each >= job.nodes.least && count / job.each <= job.nodes.most;
}

}  // namespace

Result<std::optional<std::string>> judge_update(const KnownJob &job, const Update &update,
                                                const slurm::Snapshot *pool)
{
    if (job.nodes.least == 0) return judge_update_without_gpus(job, update);
    if (auto nodes = refuse_other_nodes(job, update); !nodes) return nodes.error();
    if (!update.tres_per_node && !update.licences) return std::optional<std::string>{};
    unsigned long count = slurm::rgpu_licences(job.licences);
    if (update.tres_per_node) {
        auto request = request_after(job, *update.tres_per_node, pool);
        if (!request) return request.error();
        count = licences_of_node(*request) * job.nodes.least;
    }
    if (update.licences && slurm::names_rgpu(*update.licences) &&
        slurm::rgpu_licences(*update.licences) != count) {
        unsigned long asked = slurm::rgpu_licences(*update.licences);
        // Those of a job that runs follow its leases, which rgpu resize may have changed.
        if (!counts_nodes(job, update, asked) && !(update.by_slurm && job.running && asked != 0))
            return refused("the job's GPUs need licences rgpu:" + number(count) +
                           "; they follow from --gres=rgpu:N and cannot be set to another number" +
                           (job.running ? "; " + resize_advice(job) : ""));
        count = asked;
    }
    auto licences = slurm::with_rgpu(update.licences.value_or(job.licences),
                                     licences_after(job, update, count));
    if (!licences) return licences.error();
    return std::optional<std::string>{*licences};
}

}  // namespace rgpu::plugin
