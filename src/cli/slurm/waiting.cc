// SPDX-License-Identifier: Apache-2.0
#include "cli/slurm/waiting.h"

#include <algorithm>
#include <ctime>
#include <syslog.h>

#include "cli/slurm/job_record.h"
#include "cli/slurm/tool.h"
#include "cli/slurm/words.h"
#include "pool/ledger/placement.h"
#include "slurm/jobs/lost_server.h"

namespace rgpu::cli {
namespace {

// Jobs that start together ask for the same GPUs, and have them after some milliseconds.
constexpr Milliseconds kTellAfter{2000};
constexpr size_t kMostHolders = 4;

bool holds_wanted(const pool::Inventory &server, const pool::Lease &lease,
                  const pool::GpuFilter &filter)
{
    const pool::DriverVersions driver{server.driver_version, server.driver_release};
    return std::any_of(server.gpus.begin(), server.gpus.end(), [&](const pool::GpuState &gpu) {
        return pool::fits_filter(gpu, filter, driver) &&
               std::any_of(lease.gpus.begin(), lease.gpus.end(),
                           [&](const pool::Portion &part) { return part.uuid == gpu.uuid; });
    });
}

// "; held by job 17 (since ...), job 18 (...)". Users are no business of other users: jobs have
// numbers. With `users`, for administrators.
std::string holders(const pool::Inventories &pool, const slurm::Job &job,
                    const pool::GpuFilter &filter, bool users)
{
    std::string out;
    size_t count = 0;
    for (const auto &told : pool)
        for (size_t i = 0; told.answer && i < told.answer->leases.size(); ++i) {
            const pool::Lease &lease = told.answer->leases[i];
            if (lease.owner.job == job.id || !holds_wanted(*told.answer, lease, filter)) continue;
            if (++count > kMostHolders) continue;
            out += out.empty() ? "; held by " : ", ";
            out += lease.owner.job.empty() ? "a program outside Slurm" : "job " + lease.owner.job;
            if (users) out += " of " + lease.owner.user;
            out += " (since " + clock_text(lease.granted_at) + ")";
        }
    if (count > kMostHolders) out += " and " + std::to_string(count - kMostHolders) + " more";
    return out;
}

}  // namespace

void note_in_job(const slurm::Job &job, const std::string &text)
{
    auto record = look_at(job.whole);
    std::string comment = record ? record->comment : "";
    (void)put_note(job.whole, comment, text + slurm::died_before(comment),
                   slurm::avoided(comment, time(nullptr)))
        .has_value();
}

void notify_job(const slurm::Job &job, const std::string &text)
{
    (void)run_tool({"scontrol", "notify", job.name, "rgpu: job " + job.name + ": " + text})
        .has_value();
}

void Waiting::still(const std::string &reason)
{
    const auto waited = Milliseconds(now() - start_);
    if (told_ || waited < kTellAfter) return;
    told_ = true;
    auto request = slurm::request_for(job_, "");
    if (!request) return;
    const pool::Inventories pool = client_.inventory();
    const auto gpus = static_cast<unsigned>(request->gpus);
    const Wanted wanted{gpus, job_.type, {request->share, request->most}, job_.nodes};
    const std::string waits = "waits for " + to_text(wanted) + " since " +
                              clock_text(time(nullptr) - waited.count() / 1000) + ": " + reason;
    const std::string text = waits + holders(pool, job_, request->filter, false);
    note_in_job(job_, text);
    notify_job(job_, text);
    openlog("rgpu", LOG_PID, LOG_DAEMON);
    syslog(LOG_NOTICE, "job %s: %s%s", job_.id.c_str(), waits.c_str(),
           holders(pool, job_, request->filter, true).c_str());
}

void Waiting::over()
{
    if (!told_) return;
    const auto seconds = Milliseconds(now() - start_).count() / 1000;
    note_in_job(job_, "waited " + std::to_string(seconds) + " s for its GPUs");
    notify_job(job_, "has its GPUs");
}

}  // namespace rgpu::cli
