#include "serverd/meter.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace rgpu::serverd {
namespace {

constexpr char kMagic[8] = "rgpumt1";

size_t bytes_for(size_t gpus)
{
    return sizeof(LeaseMeter) + (gpus - 1) * sizeof(GpuMeter);
}

}  // namespace

Result<void> Meter::prepare(int fd, size_t gpus)
{
    if (gpus == 0)
        return error(ErrorKind::internal, "a meter for no GPU");
    if (ftruncate(fd, 0) != 0 || ftruncate(fd, static_cast<off_t>(bytes_for(gpus))) != 0)
        return error(ErrorKind::exhausted, "a lease's meter: %s", strerror(errno));
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct {
        char magic[8];
        uint32_t gpus, nothing;
        int64_t made;
    } head{"", static_cast<uint32_t>(gpus), 0, now.tv_sec * 1'000'000'000 + now.tv_nsec};
    static_assert(offsetof(LeaseMeter, made) == 16 && sizeof head == 24);
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
    Meter meter(static_cast<LeaseMeter *>(p), bytes, 1 + (bytes - sizeof(LeaseMeter)) / sizeof(GpuMeter));
    if (memcmp(meter.memory_->magic, kMagic, sizeof kMagic))
        return error(ErrorKind::invalid, "descriptor %d is no lease's meter of this version", fd);
    return meter;
}

Meter::~Meter()
{
    if (memory_)
        munmap(memory_, bytes_);
}

}  // namespace rgpu::serverd
