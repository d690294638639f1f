// SPDX-License-Identifier: Apache-2.0
#include "slurm/jobs/victims.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "util/next_token.h"

namespace rgpu::slurm {
namespace {

unsigned long number_of(std::string_view text)
{
    unsigned long value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

// That it holds its licences. A job that is completing gives them back by itself.
bool holds(const QueuedJob &job)
{
    return job.state == "RUNNING" || job.state == "CONFIGURING" || job.state == "SUSPENDED" ||
           job.state == "STOPPED";
}

const Qos *find(const std::vector<Qos> &all, const std::string &name)
{
    auto found =
        std::find_if(all.begin(), all.end(), [&](const Qos &qos) { return qos.name == name; });
    return found == all.end() ? nullptr : &*found;
}

// Job ids are numbers.
bool younger(const QueuedJob &a, const QueuedJob &b)
{
    return a.start != b.start ? a.start > b.start : number_of(a.id) > number_of(b.id);
}

// Licences by type, the sum under an empty name.
using Amounts = std::map<std::string, long>;

Amounts amounts_of(unsigned long sum, const std::map<std::string, unsigned long> &types)
{
    Amounts out;
    out[""] = static_cast<long>(sum);
    for (const auto &[type, count] : types) out[type] = static_cast<long>(count);
    return out;
}

Amounts amounts_of(const QueuedJob &job) { return amounts_of(job.licences, job.types); }

void add(Amounts &to, const Amounts &more, long sign = 1)
{
    for (const auto &[type, count] : more) to[type] += sign * count;
}

// Of each of those needed there is enough.
bool covers(const Amounts &there, const Amounts &needed)
{
    return std::all_of(needed.begin(), needed.end(), [&](const auto &one) {
        auto found = there.find(one.first);
        return (found == there.end() ? 0 : found->second) >= one.second;
    });
}

// One more such job brings nearer what is needed: it has some of what is not there.
bool helps(const Amounts &there, const Amounts &needed, const Amounts &more)
{
    return std::any_of(needed.begin(), needed.end(), [&](const auto &one) {
        auto has = there.find(one.first), brings = more.find(one.first);
        return (has == there.end() ? 0 : has->second) < one.second && brings != more.end() &&
               brings->second > 0;
    });
}

class Books {
public:
    Books(const std::vector<QueuedJob> &queue, const std::vector<Qos> &all, const OwnLicences &sold)
        : all_(all), free_(amounts_of(sold.sum, sold.types))
    {
        for (const QueuedJob &job : queue)
            if (holds(job)) {
                add(free_, amounts_of(job), -1);
                held_[job.qos] += job.licences;
                running_.push_back(&job);
            }
    }

    void serve(const QueuedJob &job, std::vector<Victim> &out)
    {
        const Qos *qos = find(all_, job.qos);
        if (!qos || (qos->guarantee && held_[job.qos] + job.licences > *qos->guarantee)) return;
        auto chosen = choose(*qos, amounts_of(job));
        if (!chosen) return;
        for (const QueuedJob *victim : *chosen) {
            out.push_back({victim->name, victim->qos, job.name, job.qos});
            add(free_, amounts_of(*victim));
            held_[victim->qos] -= victim->licences;
            std::erase(running_, victim);
        }
        add(free_, amounts_of(job), -1);
        held_[job.qos] += job.licences;
    }

private:
    // Those that must go so that so many licences are free; nothing where all would not do.
    std::optional<std::vector<const QueuedJob *>> choose(const Qos &qos,
                                                         const Amounts &needed) const
    {
        std::vector<const QueuedJob *> may;
        for (const QueuedJob *job : running_)
            if (std::find(qos.preempts.begin(), qos.preempts.end(), job->qos) != qos.preempts.end())
                may.push_back(job);
        auto priority = [&](const QueuedJob *job) {
            const Qos *of = find(all_, job->qos);
            return of ? of->priority : 0;
        };
        std::stable_sort(may.begin(), may.end(), [&](const QueuedJob *a, const QueuedJob *b) {
            return priority(a) != priority(b) ? priority(a) < priority(b) : younger(*a, *b);
        });
        std::vector<const QueuedJob *> chosen;
        Amounts freed = free_;
        for (size_t i = 0; i < may.size() && !covers(freed, needed); ++i) {
            if (!helps(freed, needed, amounts_of(*may[i]))) continue;
            chosen.push_back(may[i]);
            add(freed, amounts_of(*may[i]));
        }
        if (!covers(freed, needed)) return {};
        // A large one may have made small ones before it needless.
        std::erase_if(chosen, [&](const QueuedJob *job) {
            Amounts without = freed;
            add(without, amounts_of(*job), -1);
            const bool needless = covers(without, needed);
            if (needless) freed = std::move(without);
            return needless;
        });
        return chosen;
    }

    const std::vector<Qos> &all_;
    std::vector<const QueuedJob *> running_;
    std::map<std::string, unsigned long> held_;  // by QOS
    Amounts free_;                               // below 0: a server went away under running jobs
};

}  // namespace

std::vector<QueuedJob> parse_queue(std::string_view printed)
{
    std::vector<QueuedJob> out;
    while (!printed.empty()) {
        std::string_view line = next_token(printed, "\n");
        QueuedJob job;
        job.id = next_token(line, "|");
        job.name = next_token(line, "|");
        job.name.resize(std::min(job.name.size(), job.name.find('+')));
        job.state = next_token(line, "|");
        job.reason = next_token(line, "|");
        job.qos = next_token(line, "|");
        job.start = next_token(line, "|");
        job.priority = number_of(next_token(line, "|"));
        OwnLicences own = own_licences(line);
        job.licences = own.sum;
        job.types = std::move(own.types);
        if (!job.id.empty() && job.licences) out.push_back(std::move(job));
    }
    return out;
}

std::vector<Qos> parse_qos(std::string_view printed)
{
    constexpr std::string_view kLicence = "license/rgpu=";
    std::vector<Qos> out;
    while (!printed.empty()) {
        std::string_view line = next_token(printed, "\n");
        Qos qos;
        qos.name = next_token(line, "|");
        qos.priority = number_of(next_token(line, "|"));
        std::string_view preempts = next_token(line, "|"), limits = next_token(line, "|");
        while (!preempts.empty()) qos.preempts.emplace_back(next_token(preempts, ","));
        while (!limits.empty())
            if (std::string_view limit = next_token(limits, ","); limit.starts_with(kLicence))
                qos.guarantee = number_of(limit.substr(kLicence.size()));
        if (!qos.name.empty()) out.push_back(std::move(qos));
    }
    return out;
}

bool waits_for_licences(const QueuedJob &job)
{
    return job.state == "PENDING" &&
           (job.reason == "Licenses" || job.reason == "Priority" || job.reason == "None");
}

std::vector<Victim> victims(const std::vector<QueuedJob> &queue, const std::vector<Qos> &all,
                            const OwnLicences &sold)
{
    std::vector<const QueuedJob *> waiting;
    for (const QueuedJob &job : queue)
        if (waits_for_licences(job)) waiting.push_back(&job);
    std::stable_sort(waiting.begin(), waiting.end(), [](const QueuedJob *a, const QueuedJob *b) {
        return a->priority > b->priority;
    });
    Books books(queue, all, sold);
    std::vector<Victim> out;
    for (const QueuedJob *job : waiting) books.serve(*job, out);
    return out;
}

}  // namespace rgpu::slurm
