#include "worker/limits/metering.h"

#include "share/pages.h"
#include "share/window.h"
#include "worker/driver/driver.h"

namespace rgpu::worker {

namespace {

// Between two looks at the memory: asking the driver costs some ten microseconds.
constexpr int64_t kMoment = share::kMillisecond;

serverd::LeaseMeter nowhere{};

}  // namespace

Metering &Metering::here()
{
    static Metering &one = *new Metering;
    return one;
}

Metering::Metering() : lease_(&nowhere) {}

void Metering::open(int fd, const std::vector<uint64_t> &places)
{
    auto opened = serverd::Meter::map(fd);
    if (!opened) return;
    meter_ = new serverd::Meter(std::move(*opened));
    lease_ = &meter_->lease();
    places_ = places;
}

serverd::GpuMeter &Metering::gpu(CUdevice device)
{
    const auto d = static_cast<size_t>(device);
    if (!meter_) return nowhere.gpu[0];
    return meter_->gpu(d < places_.size() ? places_[d] : d);
}

void Metering::look_at_memory(bool at_once)
{
    const int64_t now = share::clock_now();
    CUdevice device = 0;
    size_t free = 0, total = 0;
    if (!at_once && now - looked_ < kMoment) return;
    if (!meter_ || DRIVER(cuCtxGetDevice)(&device) || DRIVER(cuMemGetInfo_v2)(&free, &total))
        return;
    looked_ = now;
    serverd::raise(gpu(device).memory_peak, total - free);
}

}  // namespace rgpu::worker
