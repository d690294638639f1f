// SPDX-License-Identifier: Apache-2.0
#include "web/data/queue.h"

#include "pool/messages/fields.h"
#include "slurm/jobs/alternatives.h"
#include "slurm/jobs/missing.h"

namespace rgpu::web {
namespace {

using pool::Json;

Queue::Entry entry_of(slurm::PoolJob job, const pool::Inventories &pool)
{
    Queue::Entry entry;
    if (job.waits()) {
        entry.why = slurm::explain(slurm::obstacle_of(job.reason), job.reason);
        entry.fits_now = slurm::fits_now(job, pool);
        for (auto &[options, meaning] : slurm::alternatives(job, pool))
            entry.alternatives.emplace_back(std::move(options), std::move(meaning));
    } else if (job.state == "CONFIGURING") {
        entry.why = job.prolog_note();
    }
    entry.job = std::move(job);
    return entry;
}

}  // namespace

Queue look_at_queue(const Tool &tool, const pool::Inventories &pool)
{
    Queue queue;
    auto printed = tool({"squeue", "-h", "-a", "-r", "-O", slurm::kPoolJobFormat});
    if (!printed) {
        queue.failure = printed.error().text;
        return queue;
    }
    for (slurm::PoolJob &job : slurm::parse_pool_jobs(*printed))
        if (job.licences.sum) queue.jobs.push_back(entry_of(std::move(job), pool));
    if (auto shown = tool({"scontrol", "-o", "show", "lic"}))
        if (auto licences = slurm::parse_licences(*shown)) {
            queue.sold = licences->total;
            queue.taken = licences->used;
        }
    return queue;
}

std::string queue_json(const Queue &queue, const Viewer &viewer)
{
    Json jobs = Json::array();
    for (const auto &[job, why, fits_now, alternatives] : queue.jobs) {
        Json out = {{"state", job.state}, {"licences", job.licences.sum}, {"nodes", job.nodes}};
        if (job.submitted) out["submitted"] = job.submitted;
        if (job.start) out["start"] = job.start;
        if (job.end) out["end"] = job.end;
        if (viewer.all || job.user == viewer.user) {
            out["job"] = job.id;
            out["user"] = job.user;
            if (!viewer.user.empty() && job.user == viewer.user) out["mine"] = true;
            out["gpus"] = job.gpus, out["share"] = job.share();
            if (!job.type.empty()) out["type"] = job.type;
            if (!why.empty()) out["why"] = why;
            if (fits_now) out["fits_now"] = true;
            for (const auto &[options, meaning] : alternatives)
                out["alternatives"].push_back({{"options", options}, {"meaning", meaning}});
        }
        jobs.push_back(std::move(out));
    }
    Json out = {{"jobs", std::move(jobs)}};
    if (!queue.failure.empty()) out["failure"] = queue.failure;
    if (queue.sold) out["sold"] = queue.sold, out["taken"] = queue.taken;
    return pool::dump(out);
}

}  // namespace rgpu::web
