#include "serverd/rgpud/meters.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "serverd/meter.h"
#include "util/log.h"

namespace rgpu::serverd {
namespace {

// An epilog comes within seconds; one that has not come by then finds nothing.
constexpr Milliseconds kKept = std::chrono::hours(1);
constexpr size_t kMostKept = 4096;

double seconds(int64_t nanoseconds)
{
    return static_cast<double>(nanoseconds) / 1e9;
}

// Nothing used, held since it was granted.
pool::LeaseUsage held(const pool::Lease &lease)
{
    pool::LeaseUsage usage;
    usage.lease = lease.id;
    usage.owner = lease.owner;
    usage.held_s = std::max(0.0, difftime(time(nullptr), lease.granted_at));
    for (const pool::Portion &portion : lease.gpus) {
        pool::GpuUsage gpu;
        gpu.uuid = portion.uuid;
        gpu.name = portion.name;
        gpu.share = portion.share;
        usage.gpus.push_back(std::move(gpu));
    }
    return usage;
}

// A worker that lies cannot have used more time than there was.
void read(const Meter &meter, pool::LeaseUsage &usage)
{
    const LeaseMeter &lease = meter.lease();
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const double exact = seconds(now.tv_sec * 1'000'000'000 + now.tv_nsec - lease.made);
    // Where the wall clock was set meanwhile the seconds are as good.
    if (std::abs(exact - usage.held_s) <= 1)
        usage.held_s = std::max(0.0, exact);
    usage.bytes_in = lease.bytes_in;
    usage.bytes_out = lease.bytes_out;
    for (size_t i = 0; i < usage.gpus.size() && i < meter.gpus(); ++i) {
        const GpuMeter &from = meter.gpu(i);
        pool::GpuUsage &to = usage.gpus[i];
        to.busy_s = std::clamp(seconds(from.busy), 0.0, usage.held_s);
        to.blocked_s = std::max(0.0, seconds(from.blocked));
        to.throttled_s = std::max(0.0, seconds(from.throttled));
        to.memory_peak = from.memory_peak;
        to.launches = from.launches;
    }
}

}  // namespace

Result<void> Meters::open(const std::string &state_dir)
{
    directory_ = memory_path(state_dir, "meters");
    struct stat status;
    if ((mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST) || lstat(directory_.c_str(), &status) != 0)
        return error(ErrorKind::internal, "%s: %s", directory_.c_str(), strerror(errno));
    // Anybody may make files in /dev/shm.
    if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 077))
        return error(ErrorKind::internal, "%s is not a directory of this user alone: remove it", directory_.c_str());
    return {};
}

Meters::~Meters()
{
    if (!directory_.empty())
        rmdir(directory_.c_str());
}

Result<Fd> Meters::file(const pool::Lease &lease) const
{
    Fd file(::open(path(lease.id).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file)
        return error(errno == EMFILE || errno == ENOSPC ? ErrorKind::exhausted : ErrorKind::internal, "%s: %s",
                     path(lease.id).c_str(), strerror(errno));
    struct stat status;
    if (fstat(file.get(), &status) == 0 && status.st_size != 0)
        return file;
    Result<void> prepared = Meter::prepare(file.get(), lease.gpus.size());
    return prepared ? Result<Fd>(std::move(file)) : Result<Fd>(std::move(prepared).error().in(path(lease.id)));
}

void Meters::add_busy(const std::vector<Boards::Busy> &busy, const std::vector<pool::Lease> &leases) const
{
    for (const Boards::Busy &one : busy) {
        auto lease = std::find_if(leases.begin(), leases.end(), [&](const pool::Lease &l) { return l.id == one.lease; });
        if (lease == leases.end())
            continue;
        Result<Fd> fd = file(*lease);
        Result<Meter> meter = fd ? Meter::map(fd->get()) : Result<Meter>(std::move(fd).error());
        for (size_t i = 0; meter && i < lease->gpus.size(); ++i)
            if (lease->gpus[i].uuid == one.uuid)
                meter->gpu(i).busy += one.nanoseconds;
    }
}

void Meters::close(const pool::Lease &lease)
{
    pool::LeaseUsage usage = held(lease);
    if (Result<Fd> fd = file(lease)) {
        if (Result<Meter> meter = Meter::map(fd->get()))
            read(*meter, usage);
        else
            log_warning("lease %s: what it used is not known: %s", short_id(lease.id).c_str(), meter.error().text.c_str());
    }
    unlink(path(lease.id).c_str());
    if (lease.owner.job.empty())
        return;
    const Time time = now();
    closed_.push_back({std::move(usage), time});
    while (closed_.size() > kMostKept || closed_.front().at + kKept < time)
        closed_.pop_front();
}

std::vector<pool::LeaseUsage> Meters::take(const pool::Caller &caller, const pool::LeaseFilter &filter)
{
    std::vector<pool::LeaseUsage> taken;
    std::erase_if(closed_, [&](Closed &closed) {
        const pool::Owner &owner = closed.usage.owner;
        if (owner.job != filter.job || (!filter.node.empty() && owner.node != filter.node) || !(caller.admin || owner.uid == caller.uid))
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
        if (std::string name = entry.path().filename(); !leases.count(name))
            unlink(path(name).c_str());
}

}  // namespace rgpu::serverd
