// SPDX-License-Identifier: Apache-2.0
#include "worker/limits/metering.h"

#include <algorithm>

#include "share/pages.h"
#include "share/window.h"
#include "worker/driver/driver.h"

namespace rgpu::worker {

namespace {

// Between two looks at the memory: asking the driver costs some ten microseconds.
constexpr int64_t kMoment = share::kMillisecond;

serverd::LeaseMeter nowhere{};
serverd::LinkMeter no_link{};

}  // namespace

Metering &Metering::here()
{
    static Metering &one = *new Metering;
    return one;
}

Metering::Metering() : lease_(&nowhere), link_(&no_link) {}

void Metering::open(int fd, const std::vector<uint64_t> &places)
{
    auto opened = serverd::Meter::map(fd);
    if (!opened) return;
    meter_ = new serverd::Meter(std::move(*opened));
    lease_ = &meter_->lease();
    if (serverd::LinkMeter *link = meter_->link()) link_ = link;
    places_ = places;
}

serverd::GpuMeter &Metering::gpu(CUdevice device)
{
    const auto d = static_cast<size_t>(device);
    if (!meter_) return nowhere.gpu[0];
    return meter_->gpu(d < places_.size() ? places_[d] : d);
}

void Metering::answered()
{
    link_->round_trips.fetch_add(1, std::memory_order_relaxed);
    if (networked_ && !answered_.load(std::memory_order_relaxed))
        answered_.store(share::clock_now(), std::memory_order_relaxed);
}

void Metering::note_received() { received_ = share::clock_now(); }

void Metering::add_pause(int64_t pause)
{
    answered_.store(0, std::memory_order_relaxed);
    if (pauses_ < first_.size()) {
        first_[pauses_++] = pause;
        const auto shortest = first_.begin() + static_cast<std::ptrdiff_t>(pauses_ / kTooShort);
        std::nth_element(first_.begin(), shortest,
                         first_.begin() + static_cast<std::ptrdiff_t>(pauses_));
        round_trip_ = *shortest;
    }
    link_->network.fetch_add(std::min(pause, round_trip_), std::memory_order_relaxed);
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
