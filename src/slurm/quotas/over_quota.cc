// SPDX-License-Identifier: Apache-2.0
#include "slurm/quotas/over_quota.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "slurm/jobs/record.h"
#include "util/next_token.h"

namespace rgpu::slurm {
namespace {

// In one call: each is a message to slurmctld.
constexpr size_t kMostMoves = 100;

bool over_its_limit(const QueuedJob &job)
{
    return job.state == "PENDING" && job.reason == "QOSGrpLicense" && job.requeues && !job.het;
}

// A limit of the other QOS, or of whom it lets in: it would not start there in an hour either.
bool is_kept_out(const std::string &reason)
{
    static constexpr std::array kBegins = {"QOS", "Assoc", "Partition", "Invalid", "JobArrayTask"};
    return std::any_of(kBegins.begin(), kBegins.end(),
                       [&](const char *begin) { return reason.starts_with(begin); });
}

// Such a name stands in a mark and comes out again.
bool can_be_noted(const std::string &qos)
{
    return !qos.empty() && std::none_of(qos.begin(), qos.end(), [](unsigned char c) {
        return c < ' ' || c == '|' || c == ';';
    });
}

// An association of the partition goes before that of all.
bool may_use(const std::vector<Association> &all, const QueuedJob &job, const std::string &qos)
{
    const Association *found = nullptr;
    for (const Association &one : all)
        if (one.user == job.user && one.account == job.account &&
            (one.partition == job.partition || (one.partition.empty() && !found)))
            found = &one;
    return found && std::find(found->qos.begin(), found->qos.end(), qos) != found->qos.end();
}

bool preempts(const Qos *qos, const std::string &other)
{
    return qos &&
           std::find(qos->preempts.begin(), qos->preempts.end(), other) != qos->preempts.end();
}

class Mover {
public:
    Mover(Books &books, const MadeWay &made, const std::vector<Association> &associations,
          int64_t now)
        : books_(books), made_(made), associations_(associations), now_(now)
    {}

    // Nothing for a job that stays where it is.
    std::optional<Move> back(const QueuedJob &job)
    {
        const QosMark mark = qos_mark(job.comment);
        if (mark.home.empty()) return {};
        // Somebody has changed its QOS, or the rules: it is not ours any more.
        if (mark.home == job.qos || !preempts(books_.find(mark.home), job.qos) ||
            !may_use(associations_, job, mark.home))
            return Move{job.name, job.qos, job.qos, with_qos_mark(job.comment, {})};
        const bool starts = std::find(made_.starting.begin(), made_.starting.end(), &job) !=
                            made_.starting.end();
        const Amounts wanted = amounts_of(job);
        // Slurm has not looked since it was moved. Of an array, it gives all tasks the reason of
        // the first.
        const bool old_reason = job.reason == "QOSGrpLicense" && books_.has_room(job.qos, wanted);
        const bool kept_out = is_kept_out(job.reason) && !old_reason,
                   // Of an array one task after the other may start.
            tried = now_ - mark.since >= kOverQuotaTry.count() &&
                    !(starts && job.name.ends_with(']'));
        // Of a job without a processor, too, the GPUs may be idle.
        const bool can_start =
            starts || ((job.reason == "Resources" || old_reason) && covers(books_.free(), wanted));
        // It starts there, and nobody then takes its GPUs, where its own QOS has room.
        if (can_start && !tried && !books_.has_room(mark.home, wanted)) {
            if (!starts) books_.starts(job.qos, wanted);
            return {};
        }
        if (starts) books_.changes(job.qos, mark.home, wanted);
        QosMark after;
        if (kept_out || (can_start && tried)) after.stays = now_ + kOverQuotaRest.count();
        return Move{job.name, job.qos, mark.home, with_qos_mark(job.comment, after)};
    }

    void out(const QueuedJob &job, std::vector<Move> &moves)
    {
        const QosMark mark = qos_mark(job.comment);
        const Qos *own = books_.find(job.qos);
        const Amounts wanted = amounts_of(job);
        if (!own || !mark.home.empty() || mark.stays > now_ || !can_be_noted(job.qos) ||
            books_.has_room(job.qos, wanted))
            return;
        const Qos *other = nullptr;
        for (const std::string &name : own->preempts)
            if (const Qos *one = books_.find(name); one && may_use(associations_, job, name) &&
                                                    books_.has_room(name, wanted) &&
                                                    (!other || one->priority < other->priority))
                other = one;
        if (!other) return;
        if (moves.size() >= kMostMoves || !covers(books_.free(), wanted)) return;
        books_.starts(other->name, wanted);
        moves.push_back(
            {job.name, job.qos, other->name, with_qos_mark(job.comment, {job.qos, now_, 0})});
    }

private:
    Books &books_;
    const MadeWay &made_;
    const std::vector<Association> &associations_;
    const int64_t now_;
};

}  // namespace

std::vector<Association> parse_associations(std::string_view printed)
{
    std::vector<Association> out;
    while (!printed.empty()) {
        std::string_view line = next_token(printed, "\n");
        Association one;
        one.user = next_token(line, "|");
        one.account = next_token(line, "|");
        one.partition = next_token(line, "|");
        one.qos = tokens(next_token(line, "|"), ",");
        if (!one.user.empty()) out.push_back(std::move(one));
    }
    return out;
}

std::string run_stamp(const std::string &snapshot) { return snapshot + ".preempt"; }

std::vector<std::string> movers(const std::vector<QueuedJob> &queue)
{
    std::set<std::string> users;
    for (const QueuedJob &job : queue)
        if (job.state == "PENDING" && (over_its_limit(job) || !qos_mark(job.comment).home.empty()))
            users.insert(job.user);
    return {users.begin(), users.end()};
}

std::vector<Move> moves(const std::vector<QueuedJob> &queue, Books &books, const MadeWay &made,
                        const std::vector<Association> &associations, int64_t now)
{
    const std::vector<const QueuedJob *> waiting = pending(queue);
    Mover mover(books, made, associations, now);
    std::vector<Move> out;
    for (const QueuedJob *job : waiting)
        if (auto move = mover.back(*job); move && out.size() < kMostMoves)
            out.push_back(std::move(*move));
    for (const QueuedJob *job : waiting)
        if (over_its_limit(*job)) mover.out(*job, out);
    return out;
}

}  // namespace rgpu::slurm
