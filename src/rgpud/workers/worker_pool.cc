// SPDX-License-Identifier: Apache-2.0
#include "rgpud/workers/worker_pool.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "rgpud/workers/limits.h"
#include "serverd/handover.h"
#include "util/log.h"

namespace rgpu::serverd {
namespace {

// Of the file system that a tenant without an account has for caches, in memory.
constexpr uint64_t kOwnImages = uint64_t{512} << 20;

// Jobs whose epilog may still ask how their workers died.
constexpr size_t kMostJobs = 4096;

// Energy is divided so often at least; records are written then.
constexpr Milliseconds kEnergyEach{2000};

// Between two looks whether what is left of a tenant has ended.
constexpr Milliseconds kSoon{2};

// Workers of a lease that have ended, and whose places and pipes have not. A tenant can keep those
// open in another process: they are no more than these.
constexpr int kEnding = 8;

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
std::vector<Fd> seats(const Boards &boards, const pool::Lease &lease, int weight, int most)
{
    std::vector<Fd> all;
    for (const pool::Portion &gpu : lease.gpus)
        all.push_back(boards.seat(gpu.uuid, lease.id, {gpu.share, gpu.most, weight}, most));
    return all;
}

}  // namespace

WorkerPool::WorkerPool(const RgpudConfig &config, const Driver &driver, const Boards &boards,
                       const Topology &topology, EnergyBook &energy,
                       std::shared_ptr<Spawner> spawner)
    : config_(config), driver_(driver), boards_(boards), topology_(topology),
      tenants_(config, std::move(spawner)), memory_(boards_), energy_(energy)
{}

// --- leases

Result<std::vector<pool::Lease>> WorkerPool::adopt(const std::vector<pool::Lease> &leases)
{
    std::lock_guard lock(mutex_);
    std::vector<pool::Lease> all = leases, ended;
    std::set<std::string> ids;
    for (const pool::Lease &lease : leases) {
        leases_[lease.id] = {lease};
        ids.insert(lease.id);
    }
    Result<void> adopted = workers_.adopt(config_.state_dir + "/workers", tenants_.spawner());
    for (pool::Lease &lease : workers_.leases()) {
        // Ended, and its workers not yet, when the rgpud before this one ended.
        if (leases_.emplace(lease.id, Known{lease, true, false}).second) ended.push_back(lease);
        all.push_back(std::move(lease));
    }
    if (adopted) adopted = tenants_.adopt(all);
    if (!adopted) return std::move(adopted).error();
    for (const pool::Lease &lease : ended) workers_.end_lease(lease.id, now());
    if (Result<void> opened = meters_.open(config_.state_dir); !opened)
        return std::move(opened).error();
    meters_.forget_all_but(ids);
    return ended;
}

void WorkerPool::open(const pool::Lease &lease)
{
    std::lock_guard lock(mutex_);
    // What its GPUs have used so far is not this lease's.
    if (energy_.knows(lease)) {
        collect_use();
        collect_energy();
        energy_.begin(lease, now());
    }
    leases_[lease.id] = {lease};
    died_.erase(lease.owner.job);
    if (Result<Fd> meter = meters_.file(lease); !meter)
        log_warning("lease %s: what it uses is not counted: %s", short_id(lease.id).c_str(),
                    meter.error().text.c_str());
}

void WorkerPool::prepare(const std::string &id)
{
    std::lock_guard lock(mutex_);
    const pool::Lease *lease = find(id);
    if (!lease) return;
    if (Result<Group> prepared = tenants_.of(*lease, devices_of(*lease), 1); !prepared)
        log_warning("lease %s: %s", short_id(id).c_str(), prepared.error().text.c_str());
    else
        warm_up(*lease);
}

bool WorkerPool::end(const pool::Lease &lease)
{
    std::lock_guard lock(mutex_);
    const auto known = leases_.try_emplace(lease.id, Known{lease}).first;
    if (gone(lease.id)) {
        close_meter(known->second);
        leases_.erase(known);
        return false;
    }
    known->second.ended = true;
    workers_.end_lease(lease.id, now());
    return true;
}

WorkerPool::Tended WorkerPool::tend()
{
    std::lock_guard lock(mutex_);
    collect_use();
    if (now() - energy_looked_at_ >= kEnergyEach) collect_energy();
    Tended tended{workers_.tend(now()), {}};
    note_died();
    for (const std::string &id : workers_.without_client())
        if (const pool::Lease *lease = find(id)) warm_up(*lease);
    tenants_.tend();
    for (auto &[id, known] : leases_) {
        if (!known.ended || workers_.any(id)) continue;
        // What its workers have left, too.
        if (!tenants_.gone(id)) {
            tended.next = std::min(tended.next, now() + kSoon);
            continue;
        }
        close_meter(known);
        tended.gone.push_back(id);
    }
    for (const std::string &id : tended.gone) leases_.erase(id);
    return tended;
}

void WorkerPool::note_died()
{
    for (Workers::Died &died : workers_.died())
        if (const std::string &job = died.lease.owner.job;
            !job.empty() && (died_.size() < kMostJobs || died_.count(job)))
            died_[job] = std::move(died.how);
}

std::string WorkerPool::take_died(const std::string &job)
{
    std::lock_guard lock(mutex_);
    note_died();
    const auto died = died_.extract(job);
    return died ? died.mapped() : std::string();
}

const pool::Lease *WorkerPool::find(const std::string &lease) const
{
    const auto known = leases_.find(lease);
    return known == leases_.end() || known->second.ended ? nullptr : &known->second.lease;
}

bool WorkerPool::gone(const std::string &lease)
{
    return !workers_.any(lease) && tenants_.gone(lease);
}

// --- what leases use

// What the scheduler says that leases had, into their records; of those that have ended, and whose
// workers have not, too.
void WorkerPool::collect_use()
{
    const std::vector<Boards::Busy> busy = boards_.collect();
    if (busy.empty()) return;
    meters_.add_busy(busy, metered());
    energy_.add(busy);
}

// Those that have ended, and whose workers have not, still have their GPUs.
void WorkerPool::collect_energy()
{
    energy_looked_at_ = now();
    const std::vector<pool::Lease> leases = metered();
    meters_.add_energy(energy_.divide(leases, energy_looked_at_), leases);
}

std::vector<pool::Lease> WorkerPool::metered() const
{
    std::vector<pool::Lease> leases;
    for (const auto &[id, known] : leases_)
        if (known.metered) leases.push_back(known.lease);
    return leases;
}

// Workers count until they end; one that takes too long to is not waited for.
void WorkerPool::close_meter(Known &known)
{
    boards_.end_lease(known.lease.id);
    if (!known.metered) return;
    collect_use();
    collect_energy();
    meters_.close(known.lease);
    known.metered = false;
}

void WorkerPool::close_meters(const std::vector<pool::Lease> &leases)
{
    std::lock_guard lock(mutex_);
    for (const pool::Lease &lease : leases)
        if (const auto known = leases_.find(lease.id);
            known != leases_.end() && known->second.ended && known->second.metered)
            close_meter(known->second);
}

std::vector<pool::LeaseUsage> WorkerPool::usage_of(const std::vector<pool::Lease> &leases)
{
    std::lock_guard lock(mutex_);
    collect_use();
    collect_energy();
    std::vector<pool::LeaseUsage> all;
    for (const pool::Lease &lease : leases)
        if (find(lease.id)) all.push_back(meters_.read(lease));
    return all;
}

std::vector<pool::LeaseUsage> WorkerPool::take_closed()
{
    std::lock_guard lock(mutex_);
    return meters_.take_closed();
}

void WorkerPool::look_at_use()
{
    std::lock_guard lock(mutex_);
    std::vector<pool::Lease> all;
    for (const auto &[id, known] : leases_)
        if (!known.ended && known.metered) all.push_back(known.lease);
    meters_.look_at_use(all);
}

std::vector<pool::LeaseUsage> WorkerPool::take_usage(const pool::Caller &caller,
                                                     const pool::LeaseFilter &filter)
{
    std::lock_guard lock(mutex_);
    return meters_.take(caller, filter);
}

// --- starts

// A waiting worker that takes the client, its channel in what is returned, or a new one.
Result<Fd> WorkerPool::start(const std::string &id, const Fd &socket, const Peer &peer)
{
    std::lock_guard lock(mutex_);
    const pool::Lease *lease = find(id);
    if (!lease) return error(ErrorKind::unsupported, "the lease has ended");
    if (workers_.count(id) >= config_.max_workers)
        return error(ErrorKind::exhausted, "the lease has %d workers already ([rgpud] max_workers)",
                     workers_.count(id));
    if (peer.gpus.empty())
        if (Fd taken = workers_.hand_over(id, socket, {peer.table_digest, peer.key}, peer.who))
            return taken;
    WorkerStart start = worker_start(config_, driver_);
    start.client_table = peer.table_digest;
    Result<pool::Lease> seen = seen_part(*lease, peer.gpus, start);
    if (!seen) return std::move(seen).error();
    if (Result<void> started = launch(*lease, *seen, socket, start, peer.who, {}, peer.key);
        !started)
        return std::move(started).error();
    return Fd();
}

void WorkerPool::start_next(const std::string &id)
{
    std::lock_guard lock(mutex_);
    if (const pool::Lease *lease = find(id)) warm_up(*lease);
}

// The lease as a program sees it that wants some of its GPUs only. Its worker shares the memory
// account with the others.
Result<pool::Lease> WorkerPool::seen_part(const pool::Lease &lease, const std::vector<int> &gpus,
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

Result<void> WorkerPool::launch(const pool::Lease &whole, const pool::Lease &seen, const Fd &socket,
                                WorkerStart start, const std::string &who, Fd channel,
                                const std::optional<Digest> &given)
{
    const int workers = workers_.all(seen.id) + 1;
    Result<Group> group = tenants_.of(whole, devices_of(whole), workers);
    if (!group) return std::move(group).error();
    Result<Fd> memory = memory_.account(seen, config_.max_workers);
    if (!memory) return std::move(memory).error();
    WorkerLaunch launch = worker_launch(seen, group->account, std::move(start));
    launch.give(socket.get(), memory->get());
    const std::vector<Fd> places =
        seats(boards_, seen, weight_of(config_, seen.owner.qos), workers + kEnding);
    for (const Fd &place : places) launch.start.boards.push_back(launch.give(place.get()));
    Result<Fd> meter = meters_.file(seen);
    if (meter) launch.start.meter = launch.give(meter->get());
    Result<Fd> software = driver_.software ? memory_.software_gpus(seen) : Result<Fd>(Fd());
    if (!software) return std::move(software).error();
    if (*software)
        launch.environment["RGPU_SOFTGPU_DEVICES_FILE"] =
            std::to_string(launch.give(software->get()));
    Result<Fd> key = key_pipe(given);
    if (!key) return std::move(key).error();
    if (*key) launch.start.key = launch.give(key->get());
    Result<Fd> errors = log_.open(seen.id, workers + kEnding);
    if (!errors) return std::move(errors).error();
    launch.errors = errors->get();
    launch.limits = process_limits(limits_of(config_, whole, workers));
    Result<pid_t> started =
        workers_.start(seen, *group, std::move(launch), who, std::move(channel));
    if (!started) return std::move(started).error();
    return {};
}

WorkerLaunch WorkerPool::worker_launch(const pool::Lease &lease, const Account &account,
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

std::vector<std::string> WorkerPool::devices_of(const pool::Lease &lease) const
{
    std::vector<std::string> uuids;
    for (const pool::Portion &gpu : lease.gpus) uuids.push_back(gpu.uuid);
    return worker_devices(config_, driver_, uuids);
}

// The next program finds a worker whose driver runs, and whose context is there, too, while no
// other program runs: those need the memory themselves. That there is none costs the program the
// time of its start, no more.
void WorkerPool::warm_up(const pool::Lease &lease)
{
    if (!config_.warm || workers_.count(lease.id) >= config_.max_workers) return;
    if (!workers_.waits(lease.id)) start_waiting_worker(lease);
    if (!workers_.count(lease.id)) workers_.get_ready(lease.id);
}

void WorkerPool::start_waiting_worker(const pool::Lease &lease)
{
    auto channel = open_channel();
    WorkerStart start = worker_start(config_, driver_);
    start.waits = true;
    Result<void> started = channel ? launch(lease, lease, channel->second, start, "whoever comes",
                                            std::move(channel->first))
                                   : Result<void>(std::move(channel).error());
    if (!started)
        log_warning("lease %s: no worker is ready for it: %s", short_id(lease.id).c_str(),
                    started.error().text.c_str());
}

}  // namespace rgpu::serverd
