// SPDX-License-Identifier: Apache-2.0
#include "rgpud/leases/service.h"

#include <algorithm>
#include <fstream>

#include "rgpud/host/sharing.h"
#include "serverd/handover.h"
#include "util/defaults.h"
#include "util/format.h"
#include "util/log.h"

namespace rgpu::serverd {
namespace {

std::string shape(const std::vector<pool::Portion> &gpus)
{
    std::string text = counted(gpus.size(), "GPU");
    if (!gpus.empty() && gpus[0].share != kWholeGpu)
        text += " x " + share_text(gpus[0].share, gpus[0].most);
    return text;
}

// "50% and 8.0 GiB -> 20% and 4.0 GiB", of the first GPU: the others are changed alike.
std::string size_of(const pool::Ledger::Sizes &sizes)
{
    const auto text = [](const std::vector<pool::Portion> &gpus) {
        return gpus.empty()
                   ? std::string("nothing")
                   : share_text(gpus[0].share, gpus[0].most) + " and " + human_size(gpus[0].memory);
    };
    return text(sizes.before) + " -> " + text(sizes.after);
}

std::string gpus_of(const pool::Drain &drain) { return drain.gpu.empty() ? "all GPUs" : drain.gpu; }

// Whether programs of the lease may use this host's NCCL: its GPUs are theirs alone.
bool offers_nccl(const RgpudConfig &config, const pool::Lease &lease)
{
    return config.nccl != "off" &&
           std::all_of(lease.gpus.begin(), lease.gpus.end(),
                       [](const pool::Portion &gpu) { return gpu.share == kWholeGpu; });
}

// What the audit is told of a lease; `lease` outlives it.
Audit::Event of_lease(const char *act, const pool::Lease &lease, const pool::Caller *caller,
                      const char *why = "")
{
    Audit::Event event{.act = act, .what = "lease " + short_id(lease.id), .why = why};
    if (caller) event.from = caller->from, event.uid = caller->uid;
    event.owner = &lease.owner;
    event.gpus = shape(lease.gpus);
    return event;
}

Audit::Event of_admin(const char *act, std::string what, const pool::Caller &caller,
                      std::string why = {})
{
    return {.act = act,
            .what = std::move(what),
            .why = std::move(why),
            .from = caller.from,
            .uid = caller.uid};
}

// The kernel's name for the time since it was started.
const std::string &this_boot()
{
    static const std::string id = [] {
        std::ifstream file("/proc/sys/kernel/random/boot_id");
        std::string line;
        std::getline(file, line);
        return line;
    }();
    return id;
}

pool::Ledger::Limits limits(const RgpudConfig &config)
{
    pool::Ledger::Limits limits;
    limits.offer_timeout = config.offer_timeout;
    limits.max_term = config.max_term;
    limits.boot = this_boot();
    return limits;
}

}  // namespace

Service::Service(const RgpudConfig &config, Driver driver, Boards boards, pool::LeaseStore &store,
                 Topology topology, std::shared_ptr<Spawner> spawner, Audit &audit)
    : config_(config), audit_(audit), driver_(std::move(driver)), boards_(std::move(boards)),
      topology_(std::move(topology)),
      ledger_(driver_.inventory.gpus, store, limits(config), topology_.distances,
              {driver_.inventory.driver_version, driver_.inventory.driver_release}),
      lending_(config_, driver_.inventory.gpus, now()),
      pool_(config_, driver_, boards_, topology_, energy_, std::move(spawner))
{
    auto opened = UsageStore::open(config_.state_dir + "/usage.db");
    if (opened)
        usage_ = std::move(*opened);
    else
        log_warning("what ended leases used is not kept, and rgpu report will lack it: %s",
                    opened.error().text.c_str());
}

Result<void> Service::load()
{
    std::lock_guard lock(mutex_);
    offer_lent();
    Result<void> loaded = ledger_.load(now());
    if (!loaded) return loaded;
    if (ledger_.lease_count()) log_info("%zu leases are restored", ledger_.lease_count());
    Result<std::vector<pool::Lease>> left = pool_.adopt(ledger_.leases({0, true}, {}, now()));
    if (!left) return std::move(left).error();
    for (const pool::Lease &lease : *left) keep(lease);
    return {};
}

// Until its workers have ended nobody else has its GPUs.
void Service::keep(const pool::Lease &lease)
{
    ledger_.keep(lease);
    ending_.add(lease.id);
}

void Service::ended(const std::vector<pool::Lease> &leases, const char *how,
                    const pool::Caller *caller)
{
    for (const pool::Lease &lease : leases) {
        audit_.say(of_lease("end", lease, caller, how));
        log_info("lease %s: %s (%s, %s)", short_id(lease.id).c_str(), how,
                 to_text(lease.owner).c_str(), shape(lease.gpus).c_str());
        if (pool_.end(lease)) keep(lease);
    }
}

// Before anything is asked of the ledger, and with the same time: what expires by it is kept from
// others until its workers have ended.
Time Service::end_expired()
{
    Time time = now();
    ended(ledger_.expire(time), "expired");
    return time;
}

Result<pool::Offer> Service::offer(const pool::Caller &caller, const pool::Request &request)
{
    std::lock_guard lock(mutex_);
    Result<pool::Offer> offer = ledger_.offer(caller, request, end_expired());
    if (offer)
        log_debug("offer %s: %s for %s %s", short_id(offer->id).c_str(), pool::name(offer->answer),
                  to_text(request.owner).c_str(), offer->reason.c_str());
    return offer;
}

Result<pool::Lease> Service::accept(const pool::Caller &caller, const std::string &offer, int gpus)
{
    std::unique_lock lock(mutex_);
    Result<pool::Lease> lease = ledger_.accept(caller, offer, end_expired(), gpus);
    if (!lease) return lease;
    lease->nccl = offers_nccl(config_, *lease);
    ++leases_granted_;
    (void)lending_.take_count(lease->owner.job);
    pool_.open(*lease);
    audit_.say(of_lease("grant", *lease, &caller));
    log_info("lease %s: granted to uid %u, %s: %s", short_id(lease->id).c_str(), lease->owner.uid,
             to_text(lease->owner).c_str(), shape(lease->gpus).c_str());
    lock.unlock();
    pool_.prepare(lease->id);
    return lease;
}

Result<void> Service::reject(const pool::Caller &caller, const std::string &offer)
{
    std::lock_guard lock(mutex_);
    return ledger_.reject(caller, offer, end_expired());
}

Result<pool::Lease> Service::renew(const pool::Caller &caller, const std::string &lease)
{
    std::lock_guard lock(mutex_);
    return ledger_.renew(caller, lease, end_expired());
}

Result<pool::Lease> Service::resize(const pool::Caller &caller, const std::string &id,
                                    const pool::Resize &resize)
{
    std::unique_lock lock(mutex_);
    Result<pool::Ledger::Sizes> sizes = ledger_.begin_resize(caller, id, resize, end_expired());
    if (!sizes) return std::move(sizes).error();
    lock.unlock();
    Result<void> prepared = pool_.prepare_size(id, *sizes);
    lock.lock();
    if (!prepared) {
        (void)ledger_.end_resize({0, true}, id, false, end_expired());
        return std::move(prepared).error();
    }
    // Its request may take as long as it likes from here on: what it held goes back by itself.
    held_sizes_[id] = now() + defaults::kHeldSize;
    if (!resize.hold) {
        lock.unlock();
        return end_resize(caller, id, true);
    }
    const pool::Lease *lease = ledger_.find(id, end_expired());
    if (!lease) return error(ErrorKind::unsupported, "the lease has ended");
    pool::Lease as_wanted = *lease;
    as_wanted.secret.clear();
    as_wanted.gpus = sizes->after;
    return as_wanted;
}

Result<pool::Lease> Service::end_resize(const pool::Caller &caller, const std::string &id,
                                        bool keep)
{
    std::lock_guard lock(mutex_);
    const pool::Ledger::Sizes *found = ledger_.resizing(caller, id, end_expired());
    // One that is being prepared yet is nobody's to keep.
    if (!found || !held_sizes_.count(id))
        return error(ErrorKind::unsupported,
                     "lease %.8s is not being changed (any more): it has the size that it had",
                     id.c_str());
    const pool::Ledger::Sizes sizes = *found;
    Result<void> told = pool_.set_size(id, keep ? sizes.after : sizes.before);
    Result<pool::Lease> lease = told ? ledger_.end_resize(caller, id, keep, now())
                                     : Result<pool::Lease>(std::move(told).error());
    if (!lease && keep) {
        (void)pool_.set_size(id, sizes.before);
        (void)ledger_.end_resize(caller, id, false, now());
    }
    if (lease || keep) held_sizes_.erase(id);
    if (!lease || !keep) return lease;
    audit_.say(of_lease("resize", *lease, &caller, size_of(sizes).c_str()));
    log_info("lease %s: resized by uid %u, %s: %s", short_id(id).c_str(), caller.uid,
             to_text(lease->owner).c_str(), size_of(sizes).c_str());
    return lease;
}

// Whoever had them held has not come back.
void Service::undo_old_sizes()
{
    constexpr Milliseconds kTryAgain{1000};
    std::vector<std::string> old;
    {
        std::lock_guard lock(mutex_);
        const Time time = now();
        for (const auto &[id, until] : held_sizes_)
            if (until <= time) old.push_back(id);
    }
    for (const std::string &id : old) {
        if (Result<pool::Lease> undone = end_resize({0, true}, id, false); undone)
            log_info("lease %s: a change of its size was not kept in time, and is undone",
                     short_id(id).c_str());
        else {
            std::lock_guard lock(mutex_);
            held_sizes_[id] = now() + kTryAgain;
            if (undone.error().kind == ErrorKind::unsupported) held_sizes_.erase(id);
        }
    }
}

Result<void> Service::release(const pool::Caller &caller, const std::string &lease)
{
    std::unique_lock lock(mutex_);
    Result<pool::Lease> released = ledger_.release(caller, lease, end_expired());
    if (!released) return std::move(released).error();
    ended({*released}, "released", &caller);
    lock.unlock();
    ending_.await({*released}, defaults::kReleaseWait);
    return {};
}

Result<pool::Released> Service::release_job(const pool::Caller &caller,
                                            const pool::LeaseFilter &filter)
{
    std::unique_lock lock(mutex_);
    pool::Released done;
    if (filter.idle)
        for (const pool::Lease &lease : ledger_.leases(caller, filter, end_expired()))
            done.busy += pool_.count(lease.id);
    if (done.busy) return done;
    Result<std::vector<pool::Lease>> released = ledger_.release_job(caller, filter, end_expired());
    if (!released) return std::move(released).error();
    ended(*released, "released", &caller);
    lock.unlock();
    if (filter.wait) ending_.await(*released, defaults::kReleaseWait);
    done.count = static_cast<int>(released->size());
    for (const pool::Lease &lease : *released) {
        done.gpus += static_cast<int>(lease.gpus.size());
        done.lost += !lease.boot.empty() && lease.boot != this_boot();
    }
    if (filter.wait) pool_.close_meters(*released);
    if (filter.usage) {
        done.usage = pool_.take_usage(caller, filter);
        if (caller.admin) {
            done.withdrawn = lending_.take_count(filter.job);
            done.died = pool_.take_died(filter.job);
        }
    }
    return done;
}

Result<void> Service::find_gpu(const pool::Caller &caller, pool::Drain &drain) const
{
    if (!caller.admin)
        return error(ErrorKind::invalid, "only root and [auth] admins drain and resume");
    for (const pool::GpuState &gpu : driver_.inventory.gpus)
        if (drain.gpu == std::to_string(gpu.index)) drain.gpu = gpu.uuid;
    return {};
}

Result<void> Service::drain(const pool::Caller &caller, pool::Drain drain)
{
    Result<void> found = find_gpu(caller, drain);
    if (!found) return found;
    if (drain.reason.empty()) drain.reason = "drained";
    drain.since = time(nullptr);
    std::lock_guard lock(mutex_);
    Result<void> done = ledger_.drain(drain);
    if (!done) return done;
    audit_.say(of_admin("drain", gpus_of(drain), caller, drain.reason));
    log_info("%s: drained by uid %u: %s", gpus_of(drain).c_str(), caller.uid, drain.reason.c_str());
    return {};
}

Result<void> Service::resume(const pool::Caller &caller, pool::Drain drain)
{
    Result<void> found = find_gpu(caller, drain);
    if (!found) return found;
    std::lock_guard lock(mutex_);
    Result<void> done = ledger_.resume(drain.gpu);
    if (!done) return done;
    audit_.say(of_admin("resume", gpus_of(drain), caller));
    log_info("%s: resumed by uid %u", gpus_of(drain).c_str(), caller.uid);
    return {};
}

Result<pool::Lease> Service::lend(const pool::Caller &caller, const pool::Lend &lend)
{
    std::lock_guard lock(mutex_);
    Result<pool::Lease> lent = lending_.lend(caller, lend, now());
    if (!lent) return lent;
    offer_lent();
    audit_.say(of_admin("lend", "lend " + short_id(lent->id) + ", " + shape(lent->gpus), caller));
    log_info("lend %s: %s is lent by uid %u, %s", short_id(lent->id).c_str(),
             shape(lent->gpus).c_str(), caller.uid, to_text(lend.owner).c_str());
    return lent;
}

Result<void> Service::withdraw(const pool::Caller &caller, const std::string &lend)
{
    std::lock_guard lock(mutex_);
    if (Result<void> done = lending_.withdraw(caller, lend, now()); !done) return done;
    offer_lent();
    audit_.say(of_admin("withdraw", "lend " + short_id(lend), caller));
    log_info("lend %s: withdrawn", short_id(lend).c_str());
    return {};
}

void Service::offer_lent()
{
    if (lending_) ledger_.offer_only(lending_.lent());
}

std::vector<pool::Lease> Service::leases(const pool::Caller &caller,
                                         const pool::LeaseFilter &filter)
{
    std::lock_guard lock(mutex_);
    std::vector<pool::Lease> leases = ledger_.leases(caller, filter, end_expired());
    for (pool::Lease &lease : leases) {
        lease.workers = pool_.count(lease.id);
        lease.nccl = offers_nccl(config_, lease);
    }
    return leases;
}

pool::Inventory Service::inventory(const pool::Caller &caller)
{
    pool::Inventory inventory;
    inventory.name = config_.name;
    inventory.version = RGPU_VERSION;
    inventory.driver_version = driver_.inventory.driver_version;
    inventory.driver_release = driver_.inventory.driver_release;
    inventory.software = driver_.software;
    inventory.data_port = data_port_;
    inventory.leases = leases(caller, {});
    std::lock_guard lock(mutex_);
    inventory.gpus = ledger_.gpus();
    return inventory;
}

void Service::set_health(std::vector<pool::Finding> findings, std::string closed)
{
    std::lock_guard lock(mutex_);
    findings_ = std::move(findings);
    looked_at_ = now();
    ledger_.close(std::move(closed));
}

pool::Health Service::health() const
{
    std::lock_guard lock(mutex_);
    int64_t age = looked_at_ == kNever ? 0 : Milliseconds(now() - looked_at_).count();
    return {config_.name, age, findings_};
}

pool::Topology Service::topology() const
{
    return describe(topology_, config_.name, driver_.inventory.gpus);
}

std::optional<std::string> Service::secret(const std::string &id)
{
    {
        std::lock_guard lock(mutex_);
        const pool::Lease *lease = ledger_.find(id, end_expired());
        if (lease) return lease->secret;
    }
    return lending_.secret(id);
}

std::set<std::string> Service::jobs()
{
    std::lock_guard lock(mutex_);
    std::set<std::string> jobs;
    for (const pool::Lease &lease : ledger_.leases({0, true}, {}, end_expired()))
        if (!lease.owner.job.empty()) jobs.insert(lease.owner.job);
    return jobs;
}

void Service::job_gone(const std::string &job)
{
    std::lock_guard lock(mutex_);
    Result<std::vector<pool::Lease>> released =
        ledger_.release_job({0, true}, {job, "", false}, end_expired());
    if (released)
        ended(*released, "ended, as Slurm does not know its job any more");
    else
        log_error("job %s is gone: %s", job.c_str(), released.error().text.c_str());
}

void Service::holder_here(const std::string &id) { lending_.held(id); }

void Service::holder_gone(const std::string &id)
{
    std::lock_guard lock(mutex_);
    Time time = end_expired();
    if (lending_.lost(id, time)) {
        offer_lent();
        log_info("lend %s: whoever lent it is gone; nothing more of it is offered",
                 short_id(id).c_str());
        return;
    }
    if (!ledger_.find(id, time)) return;
    log_info("lease %s: its holder's connection closed; it ends in %s unless it is renewed",
             short_id(id).c_str(), format_duration(defaults::kHolderGrace).c_str());
    ledger_.shorten(id, defaults::kHolderGrace, time);
}

void Service::end_what_has_expired()
{
    std::lock_guard lock(mutex_);
    end_expired();
}

Result<Fd> Service::start_worker(const std::string &id, Fd socket, const Peer &peer)
{
    end_what_has_expired();
    return pool_.start(id, socket, peer);
}

// The next program's worker is started when this program rests: side by side they would both take
// as long as one after the other.
void Service::start_next(const std::string &id, Fd taken)
{
    constexpr Milliseconds kTaken{200};
    if (taken) wait_taken(taken.get(), kTaken);
    end_what_has_expired();
    pool_.start_next(id);
}

// What nobody lends any more: its leases end when they have had their time, and so does one that
// was offered before.
void Service::end_withdrawn(Time time)
{
    for (const pool::Lease &lend : lending_.expire(time)) {
        offer_lent();
        log_info("lend %s: nobody came to hold it", short_id(lend.id).c_str());
    }
    for (const std::string &gpu : lending_.due(time)) {
        Result<std::vector<pool::Lease>> released = ledger_.release_of(gpu, time);
        if (!released) {
            log_error("GPU %s is withdrawn: %s", gpu.c_str(), released.error().text.c_str());
            continue;
        }
        lending_.count(*released);
        ended(*released, "ended, as its GPUs were withdrawn");
    }
}

Time Service::tend()
{
    undo_old_sizes();
    {
        std::lock_guard lock(mutex_);
        end_withdrawn(end_expired());
    }
    const WorkerPool::Tended tended = pool_.tend();
    std::lock_guard lock(mutex_);
    keep_usage();
    for (const std::string &lease : tended.gone) ledger_.let_go(lease);
    ending_.remove(tended.gone);
    Time next = std::min(tended.next, ledger_.next_expiry());
    for (const auto &[id, until] : held_sizes_) next = std::min(next, until);
    return next;
}

// Of leases that have ended. Copies count as use, which the scheduler does not see: the meters are
// looked at now and then.
void Service::keep_usage()
{
    constexpr Milliseconds kLookEach{10'000};
    if (const Time time = now(); time - use_looked_at_ >= kLookEach) {
        use_looked_at_ = time;
        pool_.look_at_use();
    }
    for (const pool::LeaseUsage &usage : pool_.take_closed())
        if (Result<void> kept = usage_ ? usage_->keep(usage, time(nullptr)) : Result<void>(); !kept)
            log_warning("lease %s: what it used is not kept: %s", short_id(usage.lease).c_str(),
                        kept.error().text.c_str());
}

pool::Usages Service::usages(const pool::Caller &caller, const std::string &job)
{
    pool::Usages usages;
    usages.name = config_.name;
    pool::LeaseFilter filter;
    filter.job = job;
    std::lock_guard lock(mutex_);
    std::vector<pool::Lease> held = ledger_.leases(caller, filter, end_expired());
    keep_usage();
    if (!job.empty() && usage_) {
        auto ended = usage_->of_job(job);
        if (!ended) log_warning("%s", ended.error().text.c_str());
        for (pool::LeaseUsage &usage : ended ? *ended : std::vector<pool::LeaseUsage>())
            if (caller.admin || usage.owner.uid == caller.uid)
                usages.leases.push_back(std::move(usage));
    }
    for (pool::LeaseUsage &usage : pool_.usage_of(held)) usages.leases.push_back(std::move(usage));
    return usages;
}

pool::Sharing Service::sharing(const pool::Caller &caller)
{
    return describe(boards_.view(), config_.name, driver_.inventory.gpus, leases(caller, {}));
}

Service::Count Service::count() const
{
    std::lock_guard lock(mutex_);
    Count count;
    for (const pool::GpuState &gpu : ledger_.gpus()) {
        ++count.gpus;
        count.share_free += gpu.free_share;
    }
    count.offers = ledger_.offer_count();
    count.leases = ledger_.lease_count();
    count.workers = pool_.count();
    count.workers_started = pool_.started();
    count.leases_granted = leases_granted_;
    for (auto verdict : {pool::Verdict::pass, pool::Verdict::info, pool::Verdict::skipped,
                         pool::Verdict::marginal, pool::Verdict::fatal})
        count.checks[pool::name(verdict)] = static_cast<int>(
            std::count_if(findings_.begin(), findings_.end(), [&](const pool::Finding &finding) {
                return finding.verdict == verdict;
            }));
    return count;
}

}  // namespace rgpu::serverd
