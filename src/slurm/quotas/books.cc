// SPDX-License-Identifier: Apache-2.0
#include "slurm/quotas/books.h"

#include <algorithm>

#include "slurm/terms/number.h"
#include "util/next_token.h"

namespace rgpu::slurm {
namespace {

// That it holds its licences. A job that is completing gives them back by itself.
bool holds(const QueuedJob &job)
{
    return job.state == "RUNNING" || job.state == "CONFIGURING" || job.state == "SUSPENDED" ||
           job.state == "STOPPED";
}

Amounts amounts_of(unsigned long sum, const std::map<std::string, unsigned long> &types)
{
    Amounts out;
    out[""] = static_cast<long>(sum);
    for (const auto &[type, count] : types) out[type] = static_cast<long>(count);
    return out;
}

}  // namespace

Amounts amounts_of(const QueuedJob &job) { return amounts_of(job.licences, job.types); }

void add(Amounts &to, const Amounts &more, long sign)
{
    for (const auto &[type, count] : more) to[type] += sign * count;
}

bool covers(const Amounts &there, const Amounts &needed)
{
    return std::all_of(needed.begin(), needed.end(), [&](const auto &one) {
        auto found = there.find(one.first);
        return (found == there.end() ? 0 : found->second) >= one.second;
    });
}

Books::Books(const std::vector<QueuedJob> &queue, const std::vector<Qos> &all,
             const OwnLicences &sold)
    : all_(all), free_(amounts_of(sold.sum, sold.types))
{
    for (const QueuedJob &job : queue)
        if (holds(job)) {
            starts(job.qos, amounts_of(job));
            running_.push_back(&job);
        }
}

const Qos *Books::find(const std::string &name) const
{
    auto found =
        std::find_if(all_.begin(), all_.end(), [&](const Qos &qos) { return qos.name == name; });
    return found == all_.end() ? nullptr : &*found;
}

bool Books::has_room(const std::string &name, const Amounts &more) const
{
    const Qos *qos = find(name);
    if (!qos) return false;
    auto held = held_.find(name);
    Amounts all = held == held_.end() ? Amounts() : held->second;
    add(all, more);
    if (qos->guarantee && all[""] > static_cast<long>(*qos->guarantee)) return false;
    return std::all_of(qos->of_types.begin(), qos->of_types.end(), [&](const auto &limit) {
        return all[limit.first] <= static_cast<long>(limit.second);
    });
}

void Books::starts(const std::string &qos, const Amounts &of_job)
{
    add(free_, of_job, -1);
    add(held_[qos], of_job);
}

void Books::ends(const QueuedJob &job)
{
    add(free_, amounts_of(job));
    add(held_[job.qos], amounts_of(job), -1);
    std::erase(running_, &job);
}

void Books::changes(const std::string &from, const std::string &to, const Amounts &of_job)
{
    add(held_[from], of_job, -1);
    add(held_[to], of_job);
}

namespace {

// "14_3" or "14_[3,4]", and behind it the task of "14_5".
void add_task(std::string &name, const std::string &more)
{
    const size_t task = more.find('_'), at = name.find('_');
    if (task == more.npos || at == name.npos) return;
    if (name.back() == ']')
        name.pop_back();
    else
        name.insert(at + 1, "[");
    name += "," + more.substr(task + 1) + "]";
}

}  // namespace

std::vector<QueuedJob> parse_queue(std::string_view printed)
{
    std::vector<QueuedJob> out;
    std::map<std::string, size_t> records;  // of arrays, by their number
    while (!printed.empty()) {
        std::string_view one = next_token(printed, "\x1f");
        while (one.starts_with('\n')) one.remove_prefix(1);
        if (std::count(one.begin(), one.end(), '|') < 13) continue;
        QueuedJob job;
        job.id = next_token(one, "|");
        job.name = next_token(one, "|");
        job.het = job.name.find('+') != job.name.npos;
        job.name.resize(std::min(job.name.size(), job.name.find('+')));
        job.state = next_token(one, "|");
        job.reason = next_token(one, "|");
        job.qos = next_token(one, "|");
        job.start = next_token(one, "|");
        job.priority = number_of(next_token(one, "|"));
        const bool batch = next_token(one, "|") != "0", requeue = next_token(one, "|") == "1";
        job.requeues = batch && requeue;
        job.user = next_token(one, "|");
        job.account = next_token(one, "|");
        job.partition = next_token(one, "|");
        OwnLicences own = own_licences(next_token(one, "|"));
        job.licences = own.sum;
        job.types = std::move(own.types);
        job.comment = one == "(null)" ? std::string_view() : one;
        if (job.id.empty() || !job.licences) continue;
        const auto [record, first] = records.try_emplace(job.id, out.size());
        if (first)
            out.push_back(std::move(job));
        else
            add_task(out[record->second].name, job.name);
    }
    return out;
}

std::vector<Qos> parse_qos(std::string_view printed)
{
    constexpr std::string_view kLicence = "license/";
    std::vector<Qos> out;
    while (!printed.empty()) {
        std::string_view line = next_token(printed, "\n");
        Qos qos;
        qos.name = next_token(line, "|");
        qos.priority = number_of(next_token(line, "|"));
        std::string_view preempts = next_token(line, "|"), limits = next_token(line, "|");
        while (!preempts.empty()) qos.preempts.emplace_back(next_token(preempts, ","));
        while (!limits.empty()) {
            std::string_view limit = next_token(limits, ",");
            if (!limit.starts_with(kLicence)) continue;
            limit.remove_prefix(kLicence.size());
            const std::string_view name = next_token(limit, "=");
            if (name == "rgpu")
                qos.guarantee = number_of(limit);
            else if (name.starts_with("rgpu_"))
                qos.of_types[std::string(name.substr(5))] = number_of(limit);
        }
        if (!qos.name.empty()) out.push_back(std::move(qos));
    }
    return out;
}

std::vector<const QueuedJob *> pending(const std::vector<QueuedJob> &queue)
{
    std::vector<const QueuedJob *> out;
    for (const QueuedJob &job : queue)
        if (job.state == "PENDING") out.push_back(&job);
    std::stable_sort(out.begin(), out.end(), [](const QueuedJob *a, const QueuedJob *b) {
        return a->priority > b->priority;
    });
    return out;
}

bool waits_for_licences(const QueuedJob &job)
{
    return job.state == "PENDING" &&
           (job.reason == "Licenses" || job.reason == "Priority" || job.reason == "None");
}

}  // namespace rgpu::slurm
