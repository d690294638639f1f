// What this worker counts into its lease's meter (serverd/meter.h). Without one nobody asks, and
// the numbers go nowhere.
#pragma once

#include <vector>

#include "calls/cuda_api.h"
#include "serverd/meter.h"

namespace rgpu::worker {

class Metering {
public:
    // The process's. Any thread.
    static Metering &here();
    // Counts into the file that `fd` is open on. `places` are those of the devices in the lease;
    // empty: as they are. Before anybody counts.
    void open(int fd, const std::vector<uint64_t> &places);

    void received(size_t bytes) { lease_->bytes_in.fetch_add(bytes, std::memory_order_relaxed); }
    void sent(size_t bytes) { lease_->bytes_out.fetch_add(bytes, std::memory_order_relaxed); }
    serverd::GpuMeter &gpu(CUdevice device);

    // How much memory the lease has on the current context's GPU now, if nobody looked for a
    // moment; the meter keeps the most. Called before it becomes less: memory is freed, a context
    // or the program ends.
    void look_at_memory(bool at_once = false);

private:
    Metering();
    serverd::LeaseMeter *lease_;
    const serverd::Meter *meter_ = nullptr;
    std::vector<uint64_t> places_;
    std::atomic<int64_t> looked_{0};
};

}  // namespace rgpu::worker
