// SPDX-License-Identifier: Apache-2.0
#include "rgpud/workers/meters.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <optional>

#include "serverd/meter.h"
#include "util/log.h"

namespace rgpu::serverd {
namespace {

// An epilog comes within seconds; one that has not come by then finds nothing.
constexpr Milliseconds kKept = std::chrono::hours(1);
constexpr size_t kMostKept = 4096;
// Larger numbers are lost in JSON on their way to Slurm's books.
constexpr uint64_t kMostCounted = uint64_t{1} << 53;

double seconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }

// Nothing used, held since it was granted.
pool::LeaseUsage held(const pool::Lease &lease)
{
    pool::LeaseUsage usage;
    usage.lease = lease.id;
    usage.owner = lease.owner;
    usage.granted_at = lease.granted_at;
    usage.held_s = std::max(0.0, difftime(time(nullptr), lease.granted_at));
    for (const pool::Portion &portion : lease.gpus) {
        pool::GpuUsage gpu;
        gpu.uuid = portion.uuid;
        gpu.name = portion.name;
        gpu.share = portion.share;
        gpu.memory = portion.memory;
        usage.gpus.push_back(std::move(gpu));
    }
    return usage;
}

// rgpud's own record of a lease: this, nanoseconds for each of its GPUs, its last use, and joules
// for each of its GPUs where the energy is known.
struct Record {
    char magic[8];
    int64_t made;  // wall clock, nanoseconds since the epoch
};
constexpr char kMagic[8] = "rgpurc1";
constexpr const char *kRecord = ".record";

int64_t wall_clock()
{
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

off_t busy_at(size_t gpu) { return static_cast<off_t>(sizeof(Record) + gpu * sizeof(int64_t)); }

int64_t busy_of(int record, size_t gpu)
{
    int64_t nanoseconds = 0;
    return pread(record, &nanoseconds, sizeof nanoseconds, busy_at(gpu)) == sizeof nanoseconds
               ? nanoseconds
               : 0;
}

// When the lease was used last, by the wall clock in nanoseconds since the epoch, and how many
// bytes had gone over the network then. Of a record that an rgpud of before made: nothing.
struct Use {
    int64_t at = 0;
    uint64_t bytes = 0;
};

Use use_of(int record, size_t gpus)
{
    Use use;
    return pread(record, &use, sizeof use, busy_at(gpus)) == sizeof use ? use : Use{};
}

off_t energy_at(size_t gpus, size_t gpu)
{
    return busy_at(gpus) + static_cast<off_t>(sizeof(Use) + gpu * sizeof(double));
}

// Nothing: it is not known.
std::optional<double> energy_of(int record, size_t gpus, size_t gpu)
{
    double joules = 0;
    const bool told = pread(record, &joules, sizeof joules, energy_at(gpus, gpu)) == sizeof joules;
    return told ? std::optional(joules) : std::nullopt;
}

bool set_use(int record, size_t gpus, const Use &use)
{
    return pwrite(record, &use, sizeof use, busy_at(gpus)) == sizeof use;
}

}  // namespace

Result<void> Meters::open(const std::string &state_dir)
{
    directory_ = memory_path(state_dir, "meters");
    struct stat status;
    if ((mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST) ||
        lstat(directory_.c_str(), &status) != 0)
        return error(ErrorKind::internal, "%s: %s", directory_.c_str(), strerror(errno));
    // Anybody may make files in /dev/shm.
    if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 077))
        return error(ErrorKind::internal, "%s is not a directory of this user alone: remove it",
                     directory_.c_str());
    return {};
}

Meters::~Meters()
{
    if (!directory_.empty()) rmdir(directory_.c_str());
}

std::string Meters::record_path(const std::string &lease) const { return path(lease) + kRecord; }

Result<Fd> Meters::record(const pool::Lease &lease) const
{
    Fd file(::open(record_path(lease.id).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    struct stat status;
    if (!file || fstat(file.get(), &status) != 0)
        return error(ErrorKind::internal, "%s: %s", record_path(lease.id).c_str(), strerror(errno));
    Record head{"", wall_clock()};
    memcpy(head.magic, kMagic, sizeof kMagic);
    if (status.st_size == 0 && pwrite(file.get(), &head, sizeof head, 0) != sizeof head)
        return error(ErrorKind::exhausted, "%s: %s", record_path(lease.id).c_str(),
                     strerror(errno));
    return file;
}

// What is the scheduler's word is true, and what workers say is bounded: nobody can have used more
// than there was.
pool::LeaseUsage Meters::read(const pool::Lease &lease) const
{
    pool::LeaseUsage usage = held(lease);
    Result<Fd> own = record(lease), meter = file(lease);
    if (!own || !meter) {
        log_warning("lease %s: what it used is not known: %s", short_id(lease.id).c_str(),
                    (own ? meter : own).error().text.c_str());
        return usage;
    }
    Record head{};
    if (pread(own->get(), &head, sizeof head, 0) == sizeof head) {
        const double exact = seconds(wall_clock() - head.made);
        // Where the wall clock was set meanwhile the seconds are as good.
        if (std::abs(exact - usage.held_s) <= 1) usage.held_s = std::max(0.0, exact);
    }
    const Meter::Reading said = Meter::read(meter->get(), usage.gpus.size());
    usage.bytes_in = std::min(said.bytes_in, kMostCounted);
    usage.bytes_out = std::min(said.bytes_out, kMostCounted);
    const double waited = usage.held_s * share::kMaxWorkers;
    usage.round_trips = std::min(said.round_trips, kMostCounted);
    usage.network_s = std::clamp(seconds(said.network), 0.0, waited);
    const int64_t used = use_of(own->get(), lease.gpus.size()).at;
    usage.idle_s =
        std::clamp(used ? seconds(wall_clock() - used) : usage.held_s, 0.0, usage.held_s);
    for (size_t i = 0; i < usage.gpus.size(); ++i) {
        const Meter::Reading::Gpu &from = said.gpus[i];
        pool::GpuUsage &to = usage.gpus[i];
        to.busy_s = std::clamp(seconds(busy_of(own->get(), i)), 0.0, usage.held_s);
        to.blocked_s = std::clamp(seconds(from.blocked), 0.0, waited);
        to.throttled_s = std::clamp(seconds(from.throttled), 0.0, waited);
        to.memory_peak =
            std::min(from.memory_peak, lease.gpus[i].memory ? lease.gpus[i].memory : kMostCounted);
        to.launches = std::min(from.launches, kMostCounted);
        to.energy_j = energy_of(own->get(), usage.gpus.size(), i);
    }
    return usage;
}

Result<Fd> Meters::file(const pool::Lease &lease) const
{
    Fd file(::open(path(lease.id).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file)
        return error(errno == EMFILE || errno == ENOSPC ? ErrorKind::exhausted
                                                        : ErrorKind::internal,
                     "%s: %s", path(lease.id).c_str(), strerror(errno));
    struct stat status;
    if (fstat(file.get(), &status) == 0 && status.st_size != 0) return file;
    if (Result<Fd> own = record(lease); !own) return own;
    Result<void> prepared = Meter::prepare(file.get(), lease.gpus.size());
    return prepared ? Result<Fd>(std::move(file))
                    : Result<Fd>(std::move(prepared).error().in(path(lease.id)));
}

void Meters::add_busy(const std::vector<Boards::Busy> &busy,
                      const std::vector<pool::Lease> &leases) const
{
    for (const Boards::Busy &one : busy) {
        auto lease = std::find_if(leases.begin(), leases.end(),
                                  [&](const pool::Lease &l) { return l.id == one.lease; });
        if (lease == leases.end()) continue;
        Result<Fd> own = record(*lease);
        if (own && one.nanoseconds > 0) {
            Use use = use_of(own->get(), lease->gpus.size());
            use.at = wall_clock();
            (void)set_use(own->get(), lease->gpus.size(), use);
        }
        for (size_t i = 0; own && i < lease->gpus.size(); ++i) {
            const int64_t sum = busy_of(own->get(), i) + one.nanoseconds;
            if (lease->gpus[i].uuid == one.uuid &&
                pwrite(own->get(), &sum, sizeof sum, busy_at(i)) != sizeof sum)
                log_warning("lease %s: %s: %s", short_id(lease->id).c_str(),
                            record_path(lease->id).c_str(), strerror(errno));
        }
    }
}

void Meters::add_energy(const std::vector<EnergyDivision::Part> &parts,
                        const std::vector<pool::Lease> &leases) const
{
    for (const EnergyDivision::Part &part : parts) {
        const auto lease = std::find_if(leases.begin(), leases.end(),
                                        [&](const pool::Lease &l) { return l.id == part.lease; });
        if (lease == leases.end()) continue;
        const Result<Fd> own = record(*lease);
        const size_t gpus = lease->gpus.size();
        if (!own) continue;
        const double sum = energy_of(own->get(), gpus, part.gpu).value_or(0) + part.joules;
        if (pwrite(own->get(), &sum, sizeof sum, energy_at(gpus, part.gpu)) != sizeof sum)
            log_warning("lease %s: %s: %s", short_id(lease->id).c_str(),
                        record_path(lease->id).c_str(), strerror(errno));
    }
}

void Meters::look_at_use(const std::vector<pool::Lease> &leases) const
{
    for (const pool::Lease &lease : leases) {
        Result<Fd> own = record(lease), meter = file(lease);
        if (!own || !meter) continue;
        const Meter::Reading said = Meter::read(meter->get(), lease.gpus.size());
        Use use = use_of(own->get(), lease.gpus.size());
        const uint64_t bytes = said.bytes_in + said.bytes_out;
        if (bytes - use.bytes < kUse) continue;
        use = {wall_clock(), bytes};
        (void)set_use(own->get(), lease.gpus.size(), use);
    }
}

void Meters::close(const pool::Lease &lease)
{
    pool::LeaseUsage usage = read(lease);
    usage.ended_at = time(nullptr);
    if (unsaved_.size() < kMostKept) unsaved_.push_back(usage);
    unlink(path(lease.id).c_str());
    unlink(record_path(lease.id).c_str());
    if (lease.owner.job.empty()) return;
    const Time time = now();
    closed_.push_back({std::move(usage), time});
    while (closed_.size() > kMostKept || closed_.front().at + kKept < time) closed_.pop_front();
}

std::vector<pool::LeaseUsage> Meters::take(const pool::Caller &caller,
                                           const pool::LeaseFilter &filter)
{
    std::vector<pool::LeaseUsage> taken;
    std::erase_if(closed_, [&](Closed &closed) {
        const pool::Owner &owner = closed.usage.owner;
        if (owner.job != filter.job || (!filter.node.empty() && owner.node != filter.node) ||
            !(caller.admin || owner.uid == caller.uid))
            return false;
        taken.push_back(std::move(closed.usage));
        return true;
    });
    return taken;
}

void Meters::forget_all_but(const std::set<std::string> &leases) const
{
    std::error_code failure;
    for (const auto &entry : std::filesystem::directory_iterator(directory_, failure))
        if (std::string name = entry.path().filename();
            !leases.count(name.substr(0, name.find('.'))))
            unlink(path(name).c_str());
}

}  // namespace rgpu::serverd
