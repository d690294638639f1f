// SPDX-License-Identifier: Apache-2.0
#include "slurm/quotas/victims.h"

#include <algorithm>
#include <optional>

#include "slurm/terms/number.h"

namespace rgpu::slurm {
namespace {

// Job ids are numbers.
bool younger(const QueuedJob &a, const QueuedJob &b)
{
    return a.start != b.start ? a.start > b.start : number_of(a.id) > number_of(b.id);
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

// Those that must go so that so many licences are free; nothing where all would not do.
std::optional<std::vector<const QueuedJob *>> choose(const Books &books, const Qos &qos,
                                                     const Amounts &needed)
{
    std::vector<const QueuedJob *> may;
    for (const QueuedJob *job : books.running())
        if (std::find(qos.preempts.begin(), qos.preempts.end(), job->qos) != qos.preempts.end())
            may.push_back(job);
    auto priority = [&](const QueuedJob *job) {
        const Qos *of = books.find(job->qos);
        return of ? of->priority : 0;
    };
    std::stable_sort(may.begin(), may.end(), [&](const QueuedJob *a, const QueuedJob *b) {
        return priority(a) != priority(b) ? priority(a) < priority(b) : younger(*a, *b);
    });
    std::vector<const QueuedJob *> chosen;
    Amounts freed = books.free();
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

void serve(const QueuedJob &job, Books &books, MadeWay &out)
{
    const Qos *qos = books.find(job.qos);
    const Amounts needed = amounts_of(job);
    if (!qos || !books.has_room(job.qos, needed)) return;
    auto chosen = choose(books, *qos, needed);
    if (!chosen) return;
    for (const QueuedJob *victim : *chosen) {
        out.victims.push_back({victim->name, victim->qos, job.name, job.qos});
        books.ends(*victim);
    }
    books.starts(job.qos, needed);
    out.starting.push_back(&job);
}

}  // namespace

MadeWay make_way(const std::vector<QueuedJob> &queue, Books &books)
{
    MadeWay out;
    for (const QueuedJob *job : pending(queue))
        if (waits_for_licences(*job)) serve(*job, books, out);
    return out;
}

}  // namespace rgpu::slurm
