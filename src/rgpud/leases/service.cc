#include "rgpud/leases/service.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "rgpud/workers/limits.h"
#include "serverd/handover.h"
#include "share/protocol.h"
#include "util/defaults.h"
#include "util/log.h"

namespace rgpu::serverd {
namespace {

// Of the file system that a tenant without an account has for caches, in memory.
constexpr uint64_t kOwnImages = uint64_t{512} << 20;

// Between two looks whether what is left of a tenant has ended.
constexpr Milliseconds kSoon{2};

// Jobs whose epilog may still ask what became of their leases.
constexpr size_t kMostWithdrawn = 4096;

std::string shape(const std::vector<pool::Portion> &gpus)
{
    std::string text = std::to_string(gpus.size()) + (gpus.size() == 1 ? " GPU" : " GPUs");
    if (!gpus.empty() && gpus[0].share != kWholeGpu)
        text += " x " + share_text(gpus[0].share, gpus[0].most);
    return text;
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

// In hundredths, as workers take it.
int weight_of(const RgpudConfig &config, const std::string &qos)
{
    for (const std::string &entry : config.qos_weights)
        if (Result<QosWeight> weight = parse_qos_weight(entry); weight && weight->qos == qos)
            return weight->hundredths;
    return 100;
}

// A pipe with the key in it, which no environment and no command line shows. Nothing where there is
// no key.
Result<Fd> key_pipe(const std::optional<Digest> &key)
{
    int ends[2];
    if (!key) return Fd();
    if (pipe2(ends, O_CLOEXEC) != 0)
        return error(ErrorKind::exhausted, "no pipe: %s", strerror(errno));
    Fd from(ends[0]), to(ends[1]);
    if (write(to.get(), key->data(), key->size()) != static_cast<ssize_t>(key->size()))
        return error(ErrorKind::internal, "pipe: %s", strerror(errno));
    return from;
}

// A lease's places at the schedulers of its GPUs, in its order. Without a scheduler, workers go
// without turns.
std::vector<Fd> seats(const Boards &boards, const pool::Lease &lease, int weight)
{
    std::vector<Fd> all;
    for (const pool::Portion &gpu : lease.gpus)
        all.push_back(boards.seat(gpu.uuid, lease.id, {gpu.share, gpu.most, weight}));
    return all;
}

pool::TenantShare tenant_share(const share::TenantView &view)
{
    pool::TenantShare t;
    t.least = view.terms.least;
    t.most = view.terms.most;
    t.weight = view.terms.weight / 100.0;
    t.workers = view.workers;
    t.running = view.holds;
    t.waiting = view.waits;
    t.due = view.due;
    t.given_1s = view.given_1s;
    t.given_10s = view.given_10s;
    t.given_1min = view.given_1min;
    t.given_s = view.given_seconds;
    t.owed_s = view.owed_seconds;
    t.turns = view.turns;
    t.launches = view.launches;
    t.bytes = view.bytes;
    t.launches_per_s = view.launches_per_s;
    t.bytes_per_s = view.bytes_per_s;
    t.memory_used = static_cast<uint64_t>(std::max<int64_t>(0, view.memory));
    t.longest_s = view.longest_s;
    t.running_s = view.running_s;
    return t;
}

}  // namespace

Service::Service(const RgpudConfig &config, Driver driver, Boards boards, pool::LeaseStore &store,
                 Topology topology, std::shared_ptr<Spawner> spawner)
    : config_(config), driver_(std::move(driver)), boards_(std::move(boards)),
      topology_(std::move(topology)),
      ledger_(driver_.inventory.gpus, store, limits(config), topology_.distances,
              {driver_.inventory.driver_version, driver_.inventory.driver_release}),
      tenants_(config, std::move(spawner)), memory_(boards_)
{}

Result<void> Service::load()
{
    std::lock_guard lock(mutex_);
    if (config_.lend == "jobs") {
        lends_.emplace(driver_.inventory.gpus, now());
        offer_lent();
    }
    Result<void> loaded = ledger_.load(now());
    if (!loaded) return loaded;
    if (ledger_.lease_count()) log_info("%zu leases are restored", ledger_.lease_count());
    Result<void> adopted = workers_.adopt(config_.state_dir + "/workers", tenants_.spawner());
    std::vector<pool::Lease> all = ledger_.leases({0, true}, {}, now());
    for (pool::Lease &lease : workers_.leases()) all.push_back(std::move(lease));
    if (adopted) adopted = tenants_.adopt(all);
    if (!adopted) return adopted;
    // Ended, and their workers not yet, when the rgpud before this one ended.
    for (const pool::Lease &lease : workers_.leases())
        if (!ledger_.find(lease.id, now()) &&
            std::find(ending_.begin(), ending_.end(), lease.id) == ending_.end())
            end_workers(lease);
    std::set<std::string> known;
    for (const pool::Lease &lease : ledger_.leases({0, true}, {}, now())) known.insert(lease.id);
    Result<void> opened = meters_.open(config_.state_dir);
    if (opened) meters_.forget_all_but(known);
    return opened;
}

void Service::end_workers(const pool::Lease &lease)
{
    workers_.end_lease(lease.id, now());
    ledger_.keep(lease);
    ending_.push_back(lease.id);
}

void Service::ended(const std::vector<pool::Lease> &leases, const char *how)
{
    for (const pool::Lease &lease : leases) {
        log_info("lease %s: %s (%s, %s)", short_id(lease.id).c_str(), how,
                 to_text(lease.owner).c_str(), shape(lease.gpus).c_str());
        if (!workers_.any(lease.id) && tenants_.gone(lease.id)) {
            close_meter(lease);
            continue;
        }
        end_workers(lease);
        unread_[lease.id] = lease;
    }
}

// What the scheduler says that leases had, into their records; of those that have ended, and whose
// workers have not, too.
void Service::collect_busy(const pool::Lease *ended)
{
    std::vector<Boards::Busy> busy = boards_.collect();
    if (busy.empty()) return;
    std::vector<pool::Lease> leases = ledger_.leases({0, true}, {}, now());
    for (const auto &[id, lease] : unread_) leases.push_back(lease);
    if (ended) leases.push_back(*ended);
    meters_.add_busy(busy, leases);
}

// Workers count until they end; one that takes too long to is not waited for.
void Service::close_meter(const pool::Lease &lease)
{
    boards_.end_lease(lease.id);
    collect_busy(&lease);
    meters_.close(lease);
    unread_.erase(lease.id);
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
    std::lock_guard lock(mutex_);
    Result<pool::Lease> lease = ledger_.accept(caller, offer, end_expired(), gpus);
    if (!lease) return lease;
    ++leases_granted_;
    withdrawn_.erase(lease->owner.job);
    died_.erase(lease->owner.job);
    if (Result<Fd> meter = meters_.file(*lease); !meter)
        log_warning("lease %s: what it uses is not counted: %s", short_id(lease->id).c_str(),
                    meter.error().text.c_str());
    log_info("lease %s: granted to uid %u, %s: %s", short_id(lease->id).c_str(), lease->owner.uid,
             to_text(lease->owner).c_str(), shape(lease->gpus).c_str());
    // What a start costs beyond the process itself is paid now.
    if (Result<Group> prepared = tenants_.of(*lease, devices_of(*lease), 1); !prepared)
        log_warning("lease %s: %s", short_id(lease->id).c_str(), prepared.error().text.c_str());
    else
        warm_up(*lease);
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

void Service::await_workers(std::unique_lock<std::mutex> &lock,
                            const std::vector<pool::Lease> &leases)
{
    workers_ended_.wait_for(lock, defaults::kReleaseWait, [&] {
        return std::none_of(leases.begin(), leases.end(), [this](const pool::Lease &lease) {
            return std::find(ending_.begin(), ending_.end(), lease.id) != ending_.end();
        });
    });
}

Result<void> Service::release(const pool::Caller &caller, const std::string &lease)
{
    std::unique_lock lock(mutex_);
    Result<pool::Lease> released = ledger_.release(caller, lease, end_expired());
    if (!released) return std::move(released).error();
    ended({*released}, "released");
    await_workers(lock, {*released});
    return {};
}

Result<pool::Released> Service::release_job(const pool::Caller &caller,
                                            const pool::LeaseFilter &filter)
{
    std::unique_lock lock(mutex_);
    pool::Released done;
    if (filter.idle)
        for (const pool::Lease &lease : ledger_.leases(caller, filter, end_expired()))
            done.busy += workers_.count(lease.id);
    if (done.busy) return done;
    Result<std::vector<pool::Lease>> released = ledger_.release_job(caller, filter, end_expired());
    if (!released) return std::move(released).error();
    ended(*released, "released");
    if (filter.wait) await_workers(lock, *released);
    done.count = static_cast<int>(released->size());
    for (const pool::Lease &lease : *released) {
        done.gpus += static_cast<int>(lease.gpus.size());
        done.lost += !lease.boot.empty() && lease.boot != this_boot();
        if (filter.wait && unread_.count(lease.id)) close_meter(lease);
    }
    if (filter.usage) {
        done.usage = meters_.take(caller, filter);
        if (auto withdrawn = withdrawn_.extract(filter.job); withdrawn && caller.admin)
            done.withdrawn = withdrawn.mapped();
        note_died();
        if (auto died = died_.extract(filter.job); died && caller.admin) done.died = died.mapped();
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
    if (done)
        log_info("%s: drained by uid %u: %s", drain.gpu.empty() ? "all GPUs" : drain.gpu.c_str(),
                 caller.uid, drain.reason.c_str());
    return done;
}

Result<void> Service::resume(const pool::Caller &caller, pool::Drain drain)
{
    Result<void> found = find_gpu(caller, drain);
    if (!found) return found;
    std::lock_guard lock(mutex_);
    Result<void> done = ledger_.resume(drain.gpu);
    if (done)
        log_info("%s: resumed by uid %u", drain.gpu.empty() ? "all GPUs" : drain.gpu.c_str(),
                 caller.uid);
    return done;
}

Result<pool::Lease> Service::lend(const pool::Caller &caller, const pool::Lend &lend)
{
    if (!caller.admin) return error(ErrorKind::invalid, "only root and [auth] admins lend GPUs");
    if (!lends_)
        return error(ErrorKind::invalid, "all GPUs of this server are in the pool; set lend = "
                                         "\"jobs\" below [rgpud] in its rgpu.conf "
                                         "where they are to be lent");
    std::lock_guard lock(mutex_);
    Result<pool::Lease> lent = lends_->add(lend, now());
    if (!lent) return lent;
    offer_lent();
    log_info("lend %s: %s is lent by uid %u, %s", short_id(lent->id).c_str(),
             shape(lent->gpus).c_str(), caller.uid, to_text(lend.owner).c_str());
    return lent;
}

Result<void> Service::withdraw(const pool::Caller &caller, const std::string &lend)
{
    if (!caller.admin) return error(ErrorKind::invalid, "only root and [auth] admins lend GPUs");
    std::lock_guard lock(mutex_);
    if (!lends_ || !lends_->withdraw(lend, now()))
        return error(ErrorKind::unsupported, "there is no lend %.8s here (any more)", lend.c_str());
    offer_lent();
    log_info("lend %s: withdrawn", short_id(lend).c_str());
    return {};
}

void Service::offer_lent() { ledger_.offer_only(lends_->lent()); }

std::vector<pool::Lease> Service::leases(const pool::Caller &caller,
                                         const pool::LeaseFilter &filter)
{
    std::lock_guard lock(mutex_);
    std::vector<pool::Lease> leases = ledger_.leases(caller, filter, end_expired());
    for (pool::Lease &lease : leases) lease.workers = workers_.count(lease.id);
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
    std::lock_guard lock(mutex_);
    const pool::Lease *lease = ledger_.find(id, end_expired());
    if (lease) return lease->secret;
    return lends_ ? lends_->secret(id) : std::nullopt;
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

void Service::holder_here(const std::string &id)
{
    std::lock_guard lock(mutex_);
    if (lends_) (void)lends_->held(id);
}

void Service::holder_gone(const std::string &id)
{
    std::lock_guard lock(mutex_);
    Time time = end_expired();
    if (lends_ && lends_->lost(id, time)) {
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

std::vector<std::string> Service::devices_of(const pool::Lease &lease) const
{
    std::vector<std::string> uuids;
    for (const pool::Portion &gpu : lease.gpus) uuids.push_back(gpu.uuid);
    return worker_devices(config_, driver_, uuids);
}

WorkerLaunch Service::worker_launch(const pool::Lease &lease, const Account &account,
                                    WorkerStart start) const
{
    WorkerLaunch launch;
    launch.command = {config_.worker};
    launch.environment = worker_environment(config_, driver_, account);
    std::string uuids;
    std::vector<size_t> places;
    // In the order of CUDA_VISIBLE_DEVICES.
    for (const pool::Portion &gpu : lease.gpus) {
        uuids += (uuids.empty() ? "" : ",") + gpu.uuid;
        start.memory.push_back(static_cast<uint64_t>(gpu.memory));
        start.shares.push_back({gpu.share, gpu.most});
        for (size_t i = 0; i < driver_.inventory.gpus.size(); ++i)
            if (driver_.inventory.gpus[i].uuid == gpu.uuid) places.push_back(i);
    }
    launch.cpus = topology_.cpus_of(places);
    launch.environment["CUDA_VISIBLE_DEVICES"] = uuids;
    start.weight = weight_of(config_, lease.owner.qos);
    start.max_kernel = config_.max_kernel.count();
    if (config_.image_cache) {
        start.images = make_image_dir(config_, lease.owner.uid, account);
        start.image_bytes = account.pool ? std::min(config_.image_cache, kOwnImages)
                                         : config_.image_cache;
    }
    start.lease = lease.id;
    launch.start = std::move(start);
    return launch;
}

// A waiting worker that takes the client, its channel in `taken`, or a new one.
Result<Fd> Service::start_worker(const std::string &id, Fd socket, const Peer &peer)
{
    std::lock_guard lock(mutex_);
    const pool::Lease *lease = ledger_.find(id, end_expired());
    if (!lease) return error(ErrorKind::unsupported, "the lease has ended");
    if (workers_.count(id) >= config_.max_workers)
        return error(ErrorKind::exhausted, "the lease has %d workers already ([rgpud] max_workers)",
                     workers_.count(id));
    if (peer.gpus.empty())
        if (Fd taken = workers_.hand_over(id, socket, peer.table_digest, peer.who)) return taken;
    WorkerStart start = worker_start(config_, driver_);
    start.client_table = peer.table_digest;
    Result<pool::Lease> seen = seen_part(*lease, peer.gpus, start);
    if (!seen) return std::move(seen).error();
    if (Result<void> started = launch_worker(*seen, socket, start, peer.who, {}, peer.key);
        !started)
        return std::move(started).error();
    return Fd();
}

// The next program's worker is started when this program rests: side by side they would both take
// as long as one after the other.
void Service::start_next(const std::string &id, Fd taken)
{
    constexpr Milliseconds kTaken{200};
    if (taken) wait_taken(taken.get(), kTaken);
    std::lock_guard lock(mutex_);
    if (const pool::Lease *lease = ledger_.find(id, end_expired())) warm_up(*lease);
}

// The lease as a program sees it that wants some of its GPUs only. Its worker shares the memory
// account with the others.
Result<pool::Lease> Service::seen_part(const pool::Lease &lease, const std::vector<int> &gpus,
                                       WorkerStart &start)
{
    if (gpus.empty()) return lease;
    // Made now, these have room for all of the lease's GPUs.
    if (Result<Fd> account = memory_.account(lease, config_.max_workers); !account)
        return std::move(account).error();
    (void)meters_.file(lease).has_value();
    pool::Lease seen = lease;
    seen.gpus.clear();
    for (int place : gpus) {
        if (static_cast<size_t>(place) >= lease.gpus.size())
            return error(ErrorKind::invalid, "the lease has %zu GPUs, and number %d is asked for",
                         lease.gpus.size(), place);
        seen.gpus.push_back(lease.gpus[static_cast<size_t>(place)]);
        start.places.push_back(static_cast<uint64_t>(place));
    }
    start.lease_gpus = lease.gpus.size();
    return seen;
}

Result<void> Service::launch_worker(const pool::Lease &lease, const Fd &socket, WorkerStart start,
                                    const std::string &who, Fd channel,
                                    const std::optional<Digest> &given)
{
    // The whole lease, where the program sees a part of it.
    const pool::Lease *found = ledger_.find(lease.id, now()), &whole = found ? *found : lease;
    const int workers = workers_.all(lease.id) + 1;
    Result<Group> group = tenants_.of(whole, devices_of(whole), workers);
    if (!group) return std::move(group).error();
    Result<Fd> memory = memory_.account(lease, config_.max_workers);
    if (!memory) return std::move(memory).error();
    WorkerLaunch launch = worker_launch(lease, group->account, std::move(start));
    launch.give(socket.get(), memory->get());
    const std::vector<Fd> places = seats(boards_, lease, weight_of(config_, lease.owner.qos));
    for (const Fd &place : places) launch.start.boards.push_back(launch.give(place.get()));
    Result<Fd> meter = meters_.file(lease);
    if (meter) launch.start.meter = launch.give(meter->get());
    Result<Fd> software = driver_.software ? memory_.software_gpus(lease) : Result<Fd>(Fd());
    if (!software) return std::move(software).error();
    if (*software)
        launch.environment["RGPU_SOFTGPU_DEVICES_FILE"] =
            std::to_string(launch.give(software->get()));
    Result<Fd> key = key_pipe(given);
    if (!key) return std::move(key).error();
    if (*key) launch.start.key = launch.give(key->get());
    Result<Fd> errors = log_.open(lease.id);
    if (!errors) return std::move(errors).error();
    launch.errors = errors->get();
    launch.limits = process_limits(limits_of(config_, whole, workers));
    Result<pid_t> started =
        workers_.start(lease, *group, std::move(launch), who, std::move(channel));
    if (!started) return std::move(started).error();
    return {};
}

// The next program finds a worker whose driver runs, and whose context is there, too, while no
// other program runs: those need the memory themselves. That there is none costs the program the
// time of its start, no more.
void Service::warm_up(const pool::Lease &lease)
{
    // An encrypted connection's key is made when its client comes.
    if (!config_.warm || config_.encrypt || workers_.count(lease.id) >= config_.max_workers) return;
    if (!workers_.waits(lease.id)) start_waiting_worker(lease);
    if (!workers_.count(lease.id)) workers_.get_ready(lease.id);
}

void Service::start_waiting_worker(const pool::Lease &lease)
{
    auto channel = open_channel();
    WorkerStart start = worker_start(config_, driver_);
    start.waits = true;
    Result<void> started = channel ? launch_worker(lease, channel->second, start, "whoever comes",
                                                   std::move(channel->first))
                                   : Result<void>(std::move(channel).error());
    if (!started)
        log_warning("lease %s: no worker is ready for it: %s", short_id(lease.id).c_str(),
                    started.error().text.c_str());
}

// What nobody lends any more: its leases end when they have had their time, and so does one that
// was offered before.
void Service::end_withdrawn(Time time)
{
    if (!lends_) return;
    for (const pool::Lease &lend : lends_->expire(time)) {
        offer_lent();
        log_info("lend %s: nobody came to hold it", short_id(lend.id).c_str());
    }
    for (const std::string &gpu : lends_->due(time)) {
        Result<std::vector<pool::Lease>> released = ledger_.release_of(gpu, time);
        if (!released) {
            log_error("GPU %s is withdrawn: %s", gpu.c_str(), released.error().text.c_str());
            continue;
        }
        for (const pool::Lease &lease : *released)
            if (!lease.owner.job.empty() &&
                (withdrawn_.size() < kMostWithdrawn || withdrawn_.count(lease.owner.job)))
                ++withdrawn_[lease.owner.job];
        ended(*released, "ended, as its GPUs were withdrawn");
    }
}

// A job's epilog asks what became of it.
void Service::note_died()
{
    for (Workers::Died &died : workers_.died())
        if (const std::string &job = died.lease.owner.job;
            !job.empty() && (died_.size() < kMostWithdrawn || died_.count(job)))
            died_[job] = std::move(died.how);
}

Time Service::tend()
{
    std::lock_guard lock(mutex_);
    const Time time = end_expired();
    end_withdrawn(time);
    collect_busy(nullptr);
    Time next = workers_.tend(now());
    note_died();
    for (const std::string &id : workers_.without_client())
        if (const pool::Lease *lease = ledger_.find(id, time)) warm_up(*lease);
    tenants_.tend();
    std::erase_if(ending_, [this, &next](const std::string &lease) {
        if (workers_.any(lease)) return false;
        // What its workers have left, too.
        if (!tenants_.gone(lease)) {
            next = std::min(next, now() + kSoon);
            return false;
        }
        ledger_.let_go(lease);
        if (auto unread = unread_.find(lease); unread != unread_.end())
            close_meter(pool::Lease(unread->second));
        else
            boards_.end_lease(lease);
        workers_ended_.notify_all();
        return true;
    });
    return std::min(next, ledger_.next_expiry());
}

pool::Sharing Service::sharing(const pool::Caller &caller)
{
    pool::Sharing sharing;
    sharing.name = config_.name;
    std::vector<pool::Lease> leases = this->leases(caller, {});
    for (const Boards::Gpu &board : boards_.view()) {
        pool::GpuSharing gpu;
        gpu.uuid = board.uuid;
        for (const pool::GpuState &state : driver_.inventory.gpus)
            if (state.uuid == gpu.uuid) gpu.index = state.index;
        for (const share::TenantView &view : board.tenants) {
            pool::TenantShare tenant = tenant_share(view);
            for (const pool::Lease &lease : leases)
                if (lease.id == share::text_of(view.lease)) {
                    tenant.lease = lease.id;
                    tenant.owner = lease.owner;
                    for (const pool::Portion &portion : lease.gpus)
                        if (portion.uuid == gpu.uuid) tenant.memory = portion.memory;
                }
            gpu.tenants.push_back(std::move(tenant));
        }
        sharing.gpus.push_back(std::move(gpu));
    }
    return sharing;
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
    count.workers = workers_.count();
    count.workers_started = workers_.started();
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
