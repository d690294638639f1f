// SPDX-License-Identifier: Apache-2.0
#include "pool/ledger/ledger.h"

#include <algorithm>
#include <ctime>
#include <iterator>

#include "util/units.h"

namespace rgpu::pool {
namespace {

// Of a GPU that whoever may use it has not given to the pool.
constexpr const char *kNotLent = "not lent";

Error no_such(const char *what, const std::string &id)
{
    return error(ErrorKind::unsupported, "there is no %s %.8s here (any more)", what, id.c_str());
}

bool fits(const Lease &lease, const LeaseFilter &filter)
{
    return (filter.job.empty() || lease.owner.job == filter.job) &&
           (filter.node.empty() || lease.owner.node == filter.node);
}

bool may(const Caller &caller, const Lease &lease)
{
    return caller.admin || lease.owner.uid == caller.uid;
}

Milliseconds until(Time expires, Time now)
{
    return expires == kNever ? Milliseconds(0)
                             : std::max(Milliseconds(1), Milliseconds(expires - now));
}

}  // namespace

Ledger::Ledger(std::vector<GpuState> gpus, LeaseStore &store, Limits limits, Distances distances,
               DriverVersions driver)
    : gpus_(std::move(gpus)), store_(store), limits_(limits), distances_(std::move(distances)),
      driver_(std::move(driver))
{
    for (GpuState &gpu : gpus_) {
        gpu.free_share = kWholeGpu;
        gpu.free_memory = gpu.memory;
    }
}

GpuState *Ledger::gpu(const std::string &uuid)
{
    auto found = std::find_if(gpus_.begin(), gpus_.end(),
                              [&](const GpuState &gpu) { return gpu.uuid == uuid; });
    return found == gpus_.end() ? nullptr : &*found;
}

Result<void> Ledger::load(Time now)
{
    Result<std::vector<Lease>> stored = store_.load();
    if (!stored) return std::move(stored).error();
    for (Lease &lease : *stored) {
        // Another driver may show a little less memory of the same GPU.
        for (Portion &portion : lease.gpus)
            if (const GpuState *of = gpu(portion.uuid))
                portion.memory = std::min(portion.memory, of->free_memory);
        Result<void> taken = take(lease.gpus);
        if (!taken) return std::move(taken).error().in("lease " + lease.id.substr(0, 8));
        lease.expires_in = lease.term;
        Time expires = lease.term.count() ? now + lease.term : kNever;
        std::string id = lease.id;
        leases_[id] = {std::move(lease), expires};
    }
    Result<std::vector<Drain>> drains = store_.load_drains();
    if (!drains) return std::move(drains).error();
    for (Drain &drain : *drains) drains_[drain.gpu] = std::move(drain);
    mark_drained();
    return {};
}

// Moves portions from free to held, or back. All or nothing.
Result<void> Ledger::take(const std::vector<Portion> &portions, bool back)
{
    for (const Portion &portion : portions) {
        const GpuState *of = gpu(portion.uuid);
        if (of && !back && (of->free_share < portion.share || of->free_memory < portion.memory))
            return error(ErrorKind::internal, "GPU %s would be sold twice", portion.uuid.c_str());
    }
    for (const Portion &portion : portions) {
        GpuState *of = gpu(portion.uuid);
        if (!of) continue;
        of->free_share += back ? portion.share : -portion.share;
        of->free_memory += back ? portion.memory : -portion.memory;
    }
    return {};
}

void Ledger::mark_drained()
{
    auto all = drains_.find("");
    for (GpuState &gpu : gpus_) {
        auto own = drains_.find(gpu.uuid);
        gpu.drained = all != drains_.end()               ? all->second.reason
                      : own != drains_.end()             ? own->second.reason
                      : !closed_.empty()                 ? closed_
                      : only_ && !only_->count(gpu.uuid) ? kNotLent
                                                         : "";
    }
}

void Ledger::close(std::string reason)
{
    closed_ = std::move(reason);
    mark_drained();
}

void Ledger::offer_only(std::set<std::string> gpus)
{
    only_ = std::move(gpus);
    mark_drained();
}

Result<void> Ledger::drain(const Drain &drain)
{
    if (!drain.gpu.empty() && !gpu(drain.gpu))
        return error(ErrorKind::unsupported, "this server has no GPU %s", drain.gpu.c_str());
    Result<void> stored = store_.put(drain);
    if (!stored) return stored;
    drains_[drain.gpu] = drain;
    mark_drained();
    return {};
}

Result<void> Ledger::resume(const std::string &gpu)
{
    if (!drains_.count(gpu))
        return error(ErrorKind::unsupported, "%s is not drained",
                     gpu.empty() ? "the server" : gpu.c_str());
    Result<void> erased = store_.erase_drain(gpu);
    if (!erased) return erased;
    drains_.erase(gpu);
    mark_drained();
    return {};
}

void Ledger::end_expired(Time now)
{
    for (auto offer = offers_.begin(); offer != offers_.end();) {
        if (offer->second.expires <= now) {
            (void)take(offer->second.gpus, true);
            offer = offers_.erase(offer);
        } else {
            ++offer;
        }
    }
    for (auto held = leases_.begin(); held != leases_.end();) {
        auto next = std::next(held);
        if (held->second.expires <= now) {
            // What the store does not forget now, it is asked to forget again the next time.
            if (Result<Lease> ended = end(held)) expired_.push_back(std::move(*ended));
        }
        held = next;
    }
}

Result<Lease> Ledger::end(Leases::iterator held)
{
    Result<void> erased = store_.erase(held->first);
    if (!erased)
        return std::move(erased).error().in("forgetting lease " + held->first.substr(0, 8));
    Lease lease = std::move(held->second.lease);
    leases_.erase(held);
    (void)take(lease.gpus, true);
    return lease;
}

Time Ledger::expiry(Milliseconds term, Time now) const
{
    Milliseconds limit = limits_.max_term;
    if (limit.count() && (!term.count() || term > limit)) term = limit;
    return term.count() ? now + term : kNever;
}

Result<Offer> Ledger::offer(const Caller &caller, const Request &request, Time now)
{
    end_expired(now);
    auto of_caller = [&](const auto &offer) { return offer.second.caller.uid == caller.uid; };
    if (offers_.size() >= limits_.offers || leases_.size() >= limits_.leases)
        return error(ErrorKind::exhausted,
                     "too many offers or leases are open here; try again later");
    if (!caller.admin && static_cast<size_t>(std::count_if(offers_.begin(), offers_.end(),
                                                           of_caller)) >= limits_.offers_of_user)
        return error(ErrorKind::exhausted, "you hold %zu offers here: accept or reject some first",
                     limits_.offers_of_user);

    Offer offer;
    Placement placement = place(gpus_, request, distances_, driver_);
    offer.answer = placement.answer;
    offer.reason = placement.reason;
    offer.fitting = placement.fitting;
    if (offer.answer == Answer::later && !closed_.empty()) offer.reason = closed_;
    if (offer.answer != Answer::now) return offer;
    offer.gpus = portions_of(placement.chosen, request);
    Result<void> taken = take(offer.gpus);
    if (!taken) return std::move(taken).error();
    offer.id = random_id();
    offer.fit = placement.fit;
    offer.expires_in = limits_.offer_timeout;
    offers_[offer.id] = {caller, request, offer.gpus, now + limits_.offer_timeout};
    return offer;
}

std::vector<Portion> Ledger::portions_of(const std::vector<size_t> &chosen,
                                         const Request &request) const
{
    std::vector<Portion> portions;
    for (size_t i : chosen) {
        const GpuState &gpu = gpus_[i];
        portions.push_back(
            {gpu.index, gpu.uuid, gpu.name, request.share, memory_of(gpu, request), request.most});
    }
    return portions;
}

// Of the GPUs that are locked those that go together best; the others are free again.
Result<void> Ledger::keep_of(Locked &offer, int gpus)
{
    if (gpus < 0 || static_cast<size_t>(gpus) > offer.gpus.size() ||
        (gpus && offer.request.span.empty()))
        return error(ErrorKind::invalid, "%d GPUs of an offer of %zu cannot be accepted", gpus,
                     offer.gpus.size());
    if (gpus == 0 || static_cast<size_t>(gpus) == offer.gpus.size()) return {};
    (void)take(offer.gpus, true);
    std::vector<GpuState> offered = gpus_;
    for (GpuState &gpu : offered)
        gpu.drained = std::any_of(offer.gpus.begin(), offer.gpus.end(),
                                  [&](const Portion &p) { return p.uuid == gpu.uuid; })
                          ? ""
                          : "not offered";
    Request request = offer.request;
    request.gpus = gpus;
    offer.gpus = portions_of(place(offered, request, distances_, driver_).chosen, request);
    return take(offer.gpus);
}

Result<Lease> Ledger::accept(const Caller &caller, const std::string &id, Time now, int gpus)
{
    end_expired(now);
    auto offer = offers_.find(id);
    if (offer == offers_.end() || offer->second.caller.uid != caller.uid)
        return no_such("offer", id);
    Locked &locked = offer->second;
    if (Result<void> kept = keep_of(locked, gpus); !kept) return std::move(kept).error();
    Held held;
    held.expires = expiry(locked.request.term, now);
    held.lease.id = random_id();
    held.lease.secret = random_secret();
    held.lease.owner = locked.request.owner;
    held.lease.gpus = locked.gpus;
    held.lease.term = held.expires == kNever ? Milliseconds(0) : Milliseconds(held.expires - now);
    held.lease.expires_in = held.lease.term;
    held.lease.granted_at = time(nullptr);
    held.lease.boot = limits_.boot;
    if (!locked.request.span.empty()) held.lease.span = {locked.request.span, locked.request.gpus};
    Result<void> stored = store_.put(held.lease);
    if (!stored) return std::move(stored).error().in("keeping the lease");
    offers_.erase(offer);  // its GPUs stay taken: they are the lease's now
    Lease lease = held.lease;
    leases_[lease.id] = std::move(held);
    return lease;
}

Result<void> Ledger::reject(const Caller &caller, const std::string &id, Time now)
{
    end_expired(now);
    auto offer = offers_.find(id);
    if (offer == offers_.end() || offer->second.caller.uid != caller.uid)
        return no_such("offer", id);
    (void)take(offer->second.gpus, true);
    offers_.erase(offer);
    return {};
}

Ledger::Leases::iterator Ledger::find_for(const Caller &caller, const std::string &id)
{
    auto held = leases_.find(id);
    // Whether another's lease exists is not told either.
    return held != leases_.end() && may(caller, held->second.lease) ? held : leases_.end();
}

Result<Lease> Ledger::renew(const Caller &caller, const std::string &id, Time now)
{
    end_expired(now);
    auto held = find_for(caller, id);
    if (held == leases_.end()) return no_such("lease", id);
    held->second.expires = expiry(held->second.lease.term, now);
    Lease lease = held->second.lease;
    lease.secret.clear();
    lease.expires_in = until(held->second.expires, now);
    return lease;
}

namespace {

std::string size_text(const Portion &portion)
{
    return share_text(portion.share, portion.most) + " and " + human_size(portion.memory);
}

// What takes the room of both sizes.
std::vector<Portion> larger(const Ledger::Sizes &sizes)
{
    std::vector<Portion> both = sizes.before;
    for (size_t i = 0; i < both.size(); ++i) {
        both[i].share = std::max(both[i].share, sizes.after[i].share);
        both[i].memory = std::max(both[i].memory, sizes.after[i].memory);
    }
    return both;
}

}  // namespace

// Who has what of the GPU beside the lease; not by name where the caller may not know him.
std::string Ledger::others_on(const Caller &caller, const Lease &lease,
                              const std::string &gpu) const
{
    std::string text;
    const auto add = [&](const std::string &who, const Portion &portion) {
        if (portion.uuid == gpu) text += "; " + who + " has " + size_text(portion);
    };
    for (const auto &[id, held] : leases_)
        for (const Portion &portion : held.lease.gpus)
            if (id != lease.id)
                add(!may(caller, held.lease) ? "another user"
                    : held.lease.owner.user.empty()
                        ? to_text(held.lease.owner)
                        : to_text(held.lease.owner) + " of " + held.lease.owner.user,
                    portion);
    for (const auto &[id, offer] : offers_)
        for (const Portion &portion : offer.gpus) add("a request under way", portion);
    for (const auto &[id, portions] : kept_)
        for (const Portion &portion : portions) add("a lease that is ending", portion);
    return text;
}

Result<void> Ledger::has_room(const Caller &caller, const Lease &lease, const Portion &has,
                              const Portion &wants)
{
    const GpuState *of = gpu(has.uuid);
    if (!of)
        return error(ErrorKind::unsupported, "this server has no GPU %s any more",
                     has.uuid.c_str());
    if (wants.memory > of->memory)
        return error(ErrorKind::invalid, "GPU %d (%s) has %s of memory in all, and %s is wanted",
                     of->index, of->name.c_str(), human_size(of->memory).c_str(),
                     human_size(wants.memory).c_str());
    const bool more_share = wants.share > has.share, more_memory = wants.memory > has.memory;
    if ((more_share || more_memory) && !of->drained.empty())
        return error(ErrorKind::exhausted, "nothing more of GPU %d is given: %s", of->index,
                     of->drained.c_str());
    const int share = has.share + of->free_share;
    const uint64_t memory = has.memory + of->free_memory;
    if ((more_share && wants.share > share) || (more_memory && wants.memory > memory))
        return error(
            ErrorKind::exhausted,
            "GPU %d (%s) has no room for %s: the lease has %s, and could have %d%% and %s%s",
            of->index, of->name.c_str(), size_text(wants).c_str(), size_text(has).c_str(), share,
            human_size(memory).c_str(), others_on(caller, lease, has.uuid).c_str());
    return {};
}

Result<Ledger::Sizes> Ledger::begin_resize(const Caller &caller, const std::string &id,
                                           const Resize &resize, Time now)
{
    end_expired(now);
    auto held = find_for(caller, id);
    if (held == leases_.end()) return no_such("lease", id);
    Lease &lease = held->second.lease;
    if (held->second.resizing)
        return error(ErrorKind::unavailable, "another change of lease %.8s is under way; try again",
                     id.c_str());
    Sizes sizes{lease.gpus, lease.gpus};
    for (size_t i = 0; i < sizes.after.size(); ++i) {
        Portion &after = sizes.after[i];
        if (resize.share) after.share = *resize.share;
        if (resize.most) after.most = *resize.most;
        if (resize.memory) after.memory = resize.memory;
        if (auto room = has_room(caller, lease, sizes.before[i], after); !room)
            return std::move(room).error();
    }
    (void)take(lease.gpus, true);
    const std::vector<Portion> both = larger(sizes);
    if (Result<void> taken = take(both); !taken) {
        (void)take(lease.gpus);
        return std::move(taken).error();
    }
    lease.gpus = both;
    held->second.resizing = sizes;
    return sizes;
}

const Ledger::Sizes *Ledger::resizing(const Caller &caller, const std::string &id, Time now)
{
    end_expired(now);
    auto held = find_for(caller, id);
    return held != leases_.end() && held->second.resizing ? &*held->second.resizing : nullptr;
}

Result<Lease> Ledger::end_resize(const Caller &caller, const std::string &id, bool done, Time now)
{
    end_expired(now);
    auto held = find_for(caller, id);
    if (held == leases_.end()) return no_such("lease", id);
    if (!held->second.resizing)
        return error(ErrorKind::unsupported,
                     "lease %.8s is not being changed (any more): it has the size that it had",
                     id.c_str());
    Lease lease = held->second.lease;
    lease.gpus = done ? held->second.resizing->after : held->second.resizing->before;
    if (done)
        if (Result<void> stored = store_.put(lease); !stored)
            return std::move(stored).error().in("keeping the lease's size");
    (void)take(held->second.lease.gpus, true);
    (void)take(lease.gpus);
    held->second.lease.gpus = lease.gpus;
    held->second.resizing.reset();
    lease.secret.clear();
    lease.expires_in = until(held->second.expires, now);
    return lease;
}

void Ledger::shorten(const std::string &id, Milliseconds grace, Time now)
{
    auto held = leases_.find(id);
    if (held != leases_.end() && held->second.expires != kNever)
        held->second.expires = std::min(held->second.expires, now + grace);
}

Result<Lease> Ledger::release(const Caller &caller, const std::string &id, Time now)
{
    end_expired(now);
    auto held = find_for(caller, id);
    if (held == leases_.end()) return no_such("lease", id);
    return end(held);
}

template <class Which> Result<std::vector<Lease>> Ledger::end_those(Which &&which, Time now)
{
    end_expired(now);
    std::vector<Lease> ended;
    for (auto held = leases_.begin(); held != leases_.end();) {
        auto next = std::next(held);
        if (which(held->second.lease)) {
            Result<Lease> lease = end(held);
            if (!lease) {  // whoever ends workers must hear of those that did end
                std::move(ended.begin(), ended.end(), std::back_inserter(expired_));
                return std::move(lease).error();
            }
            ended.push_back(std::move(*lease));
        }
        held = next;
    }
    return ended;
}

Result<std::vector<Lease>> Ledger::release_job(const Caller &caller, const LeaseFilter &filter,
                                               Time now)
{
    return end_those(
        [&](const Lease &lease) {
            return !filter.job.empty() && fits(lease, filter) && may(caller, lease);
        },
        now);
}

Result<std::vector<Lease>> Ledger::release_of(const std::string &gpu, Time now)
{
    return end_those(
        [&](const Lease &lease) {
            return std::any_of(lease.gpus.begin(), lease.gpus.end(),
                               [&](const Portion &part) { return part.uuid == gpu; });
        },
        now);
}

std::vector<Lease> Ledger::leases(const Caller &caller, const LeaseFilter &filter, Time now)
{
    end_expired(now);
    std::vector<Lease> seen;
    for (const auto &[id, held] : leases_) {
        if (!fits(held.lease, filter) || !may(caller, held.lease)) continue;
        seen.push_back(held.lease);
        seen.back().expires_in = until(held.expires, now);
        if (!filter.secrets) seen.back().secret.clear();
    }
    return seen;
}

const Lease *Ledger::find(const std::string &id, Time now)
{
    end_expired(now);
    auto held = leases_.find(id);
    return held == leases_.end() ? nullptr : &held->second.lease;
}

std::vector<Lease> Ledger::expire(Time now)
{
    end_expired(now);
    return std::exchange(expired_, {});
}

void Ledger::keep(const Lease &ended)
{
    if (take(ended.gpus)) kept_[ended.id] = ended.gpus;
}

void Ledger::let_go(const std::string &lease)
{
    auto kept = kept_.find(lease);
    if (kept == kept_.end()) return;
    (void)take(kept->second, true);
    kept_.erase(kept);
}

Time Ledger::next_expiry() const
{
    Time next = expired_.empty() ? kNever : Time::min();
    for (const auto &[id, offer] : offers_) next = std::min(next, offer.expires);
    for (const auto &[id, held] : leases_) next = std::min(next, held.expires);
    return next;
}

}  // namespace rgpu::pool
