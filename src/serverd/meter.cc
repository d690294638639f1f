// SPDX-License-Identifier: Apache-2.0
#include "serverd/meter.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace rgpu::serverd {
namespace {

constexpr char kMagic[8] = "rgpumt2";

// Without the link's part.
size_t bytes_for(size_t gpus) { return sizeof(LeaseMeter) + (gpus - 1) * sizeof(GpuMeter); }

}  // namespace

Result<void> Meter::prepare(int fd, size_t gpus)
{
    if (gpus == 0) return error(ErrorKind::internal, "a meter for no GPU");
    if (ftruncate(fd, 0) != 0 || ftruncate(fd, static_cast<off_t>(bytes_for(gpus + 1))) != 0)
        return error(ErrorKind::exhausted, "a lease's meter: %s", strerror(errno));
    struct {
        char magic[8];
        uint64_t gpus;
    } head{"", gpus};
    memcpy(head.magic, kMagic, sizeof kMagic);
    if (pwrite(fd, &head, sizeof head, 0) != sizeof head)
        return error(ErrorKind::exhausted, "a lease's meter: %s", strerror(errno));
    return {};
}

Result<Meter> Meter::map(int fd)
{
    struct stat status;
    if (fstat(fd, &status) != 0 || status.st_size < static_cast<off_t>(sizeof(LeaseMeter)) ||
        (static_cast<size_t>(status.st_size) - sizeof(LeaseMeter)) % sizeof(GpuMeter))
        return error(ErrorKind::invalid, "descriptor %d is no lease's meter", fd);
    const auto bytes = static_cast<size_t>(status.st_size);
    void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return error(ErrorKind::exhausted, "mapping a lease's meter: %s", strerror(errno));
    Meter meter(static_cast<LeaseMeter *>(p), bytes,
                1 + (bytes - sizeof(LeaseMeter)) / sizeof(GpuMeter));
    if (memcmp(meter.memory_->magic, kMagic, sizeof kMagic))
        return error(ErrorKind::invalid, "descriptor %d is no lease's meter of this version", fd);
    // What is written there is the tenant's word: a wrong one costs its own numbers.
    if (meter.gpus_ > 1 && meter.memory_->gpus != meter.gpus_) --meter.gpus_;
    return meter;
}

LinkMeter *Meter::link() const
{
    const size_t at = bytes_for(gpus_);
    return at + sizeof(LinkMeter) > bytes_
               ? nullptr
               : reinterpret_cast<LinkMeter *>(reinterpret_cast<char *>(memory_) + at);
}

Meter::Reading Meter::read(int fd, size_t gpus)
{
    const size_t link = bytes_for(std::max<size_t>(gpus, 1));
    std::vector<char> bytes(link + sizeof(LinkMeter));
    (void)!pread(fd, bytes.data(), bytes.size(), 0);
    auto number = [&](size_t offset) {
        uint64_t value;
        memcpy(&value, bytes.data() + offset, sizeof value);
        return value;
    };
    static_assert(sizeof(std::atomic<int64_t>) == sizeof(uint64_t) &&
                  sizeof(std::atomic<uint64_t>) == sizeof(uint64_t));
    Reading reading;
    reading.bytes_in = number(offsetof(LeaseMeter, bytes_in));
    reading.bytes_out = number(offsetof(LeaseMeter, bytes_out));
    reading.round_trips = number(link + offsetof(LinkMeter, round_trips));
    reading.network = static_cast<int64_t>(number(link + offsetof(LinkMeter, network)));
    for (size_t i = 0; i < gpus; ++i) {
        const size_t at = offsetof(LeaseMeter, gpu) + i * sizeof(GpuMeter);
        Reading::Gpu gpu;
        gpu.blocked = static_cast<int64_t>(number(at + offsetof(GpuMeter, blocked)));
        gpu.throttled = static_cast<int64_t>(number(at + offsetof(GpuMeter, throttled)));
        gpu.memory_peak = number(at + offsetof(GpuMeter, memory_peak));
        gpu.launches = number(at + offsetof(GpuMeter, launches));
        reading.gpus.push_back(gpu);
    }
    return reading;
}

Meter::~Meter()
{
    if (memory_) munmap(memory_, bytes_);
}

}  // namespace rgpu::serverd
