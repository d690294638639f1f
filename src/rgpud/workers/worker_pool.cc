// SPDX-License-Identifier: Apache-2.0
#include "rgpud/workers/worker_pool.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <set>
#include <thread>

#include "rgpud/workers/limits.h"
#include "serverd/handover.h"
#include "util/log.h"
#include "wire/band.h"

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

bool is_whole(const std::vector<pool::Portion> &gpus)
{
    return std::all_of(gpus.begin(), gpus.end(),
                       [](const pool::Portion &gpu) { return gpu.share == kWholeGpu; });
}

// A lease's places at the schedulers of its GPUs, in its order. Without a scheduler, workers go
// without turns.
std::vector<Fd> seats(const Boards &boards, const pool::Lease &lease, int weight, int most)
{
    std::vector<Fd> all;
    for (const pool::Portion &gpu : lease.gpus)
        all.push_back(
            boards.seat(gpu.uuid, lease.id, {gpu.share, gpu.most, weight}, gpu.memory, most));
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
    // An rgpud that died while it changed a lease's size may have told the workers another one.
    for (const auto &[id, known] : leases_)
        if (!known.ended && workers_.any(id))
            if (Result<void> told = tell(known.lease); !told)
                log_warning("lease %s: %s", short_id(id).c_str(), told.error().text.c_str());
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

// --- another size

namespace {

// How long workers have to count what they hold, and credit to go back that no program uses
// (doc/addresses.md).
constexpr Milliseconds kCounting{300}, kCreditGoesBack{400}, kBetweenLooks{2};

bool hung_up(const Fd &connection)
{
    pollfd look{connection.get(), 0, 0};
    return poll(&look, 1, 0) == 1 && look.revents;
}

}  // namespace

// Says to the scheduler what the lease has now.
Result<void> WorkerPool::tell(const pool::Lease &lease) const
{
    const int weight = weight_of(config_, lease.owner.qos);
    for (const pool::Portion &gpu : lease.gpus) {
        const std::optional<size_t> told =
            boards_.change(gpu.uuid, lease.id, {gpu.share, gpu.most, weight}, gpu.memory);
        if (!told)
            return error(ErrorKind::unavailable,
                         "rgpu-scheduler of this host does not answer; try again");
        // Those have pages of a scheduler that has died, which nobody writes any more.
        if (const size_t workers = workers_.on_gpu(lease.id, gpu.uuid); *told < workers)
            return error(ErrorKind::unavailable,
                         "%zu of the %zu programs on GPU %d cannot be told: rgpu-scheduler was "
                         "started anew since they began. End them first",
                         workers - *told, workers, gpu.index);
    }
    return {};
}

// With credit it is what workers hold, without it what programs use.
Result<void> WorkerPool::fits(const pool::Lease &lease, const std::vector<pool::Portion> &size,
                              bool with_credit)
{
    const std::vector<worker::MemoryAccount::InUse> in_use = memory_.in_use(lease);
    for (size_t i = 0; i < size.size() && i < in_use.size(); ++i) {
        const uint64_t credit = in_use[i].credit * wire::Band::kPage;
        const uint64_t used = in_use[i].bytes - std::min(in_use[i].bytes, credit);
        if ((with_credit ? in_use[i].bytes : used) <= size[i].memory) continue;
        return error(ErrorKind::exhausted,
                     "%s of GPU %d's memory are in use by the lease's programs (%" PRIu64
                     " bytes), and it would have %s",
                     human_size(used).c_str(), size[i].index, used,
                     human_size(size[i].memory).c_str());
    }
    return {};
}

Result<void> WorkerPool::await_memory(const std::string &id, const std::vector<pool::Portion> &size,
                                      const std::vector<Fd> &told)
{
    const Time counted_by = now() + kCounting;
    while (!std::all_of(told.begin(), told.end(), hung_up)) {
        if (now() >= counted_by)
            return error(ErrorKind::unavailable,
                         "a program of the lease is in the middle of a long call; try again");
        std::this_thread::sleep_for(kBetweenLooks);
    }
    for (const Time until = now() + kCreditGoesBack;;) {
        Result<void> fit;
        {
            std::lock_guard lock(mutex_);
            const pool::Lease *lease = find(id);
            if (!lease) return error(ErrorKind::unsupported, "the lease has ended");
            fit = fits(*lease, size, true);
            // What programs use does not go back by itself.
            if (fit || now() >= until || !fits(*lease, size, false)) return fit;
        }
        std::this_thread::sleep_for(kBetweenLooks);
    }
}

Result<void> WorkerPool::prepare_size(const std::string &id, const pool::Ledger::Sizes &sizes)
{
    std::vector<pool::Portion> tight = sizes.before;
    bool shrinks = false;
    for (size_t i = 0; i < tight.size(); ++i) {
        shrinks |= sizes.after[i].memory < tight[i].memory;
        tight[i].memory = std::min(tight[i].memory, sizes.after[i].memory);
    }
    std::vector<Fd> told;
    {
        std::lock_guard lock(mutex_);
        const pool::Lease *lease = find(id);
        if (!lease) return error(ErrorKind::unsupported, "the lease has ended");
        if (config_.nccl != "off" && workers_.any(id) && is_whole(sizes.before) &&
            !is_whole(sizes.after))
            return error(ErrorKind::unavailable,
                         "its programs may use NCCL at this server, which needs whole GPUs. End "
                         "them first");
        // Most of what cannot be done shows here, before any program notices.
        if (Result<void> fit = fits(*lease, tight, false); !fit) return fit;
        leases_.at(id).lease.gpus = tight;
        Result<void> said = tell(*lease);
        if (said && shrinks) {
            Result<std::vector<Fd>> reached = workers_.tell_size(id);
            if (reached)
                told = std::move(*reached);
            else
                said = std::move(reached).error();
        }
        if (!said) {
            leases_.at(id).lease.gpus = sizes.before;
            (void)tell(*lease);
            return said;
        }
    }
    Result<void> fit = shrinks ? await_memory(id, tight, told) : Result<void>();
    if (!fit) (void)set_size(id, sizes.before);
    return fit;
}

Result<void> WorkerPool::set_size(const std::string &id, const std::vector<pool::Portion> &size)
{
    std::lock_guard lock(mutex_);
    if (!find(id)) return error(ErrorKind::unsupported, "the lease has ended");
    // What was used so far counts by the size of then.
    collect_use();
    collect_energy();
    pool::Lease &lease = leases_.at(id).lease;
    lease.gpus = size;
    if (const int workers = workers_.all(id))
        if (Result<Group> limited = tenants_.of(lease, devices_of(lease), workers); !limited)
            log_warning("lease %s: the limits of its workers stay: %s", short_id(id).c_str(),
                        limited.error().text.c_str());
    return tell(lease);
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
