// SPDX-License-Identifier: Apache-2.0
// What this worker counts into its lease's meter (serverd/meter.h). Without one nobody asks, and
// the numbers go nowhere.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
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

    void received(size_t bytes)
    {
        lease_->bytes_in.fetch_add(bytes, std::memory_order_relaxed);
        if (answered_.load(std::memory_order_relaxed)) note_received();
    }
    void sent(size_t bytes) { lease_->bytes_out.fetch_add(bytes, std::memory_order_relaxed); }
    serverd::GpuMeter &gpu(CUdevice device);

    // How long the program waits for the network, as far as it can be seen from here: from an
    // answer until its next call that waits for one comes, but no longer than a round trip takes;
    // and while large bodies come or leave. A round trip is the shortest of the first pauses, when
    // a program has much to ask and little to compute, but for an eighth of them: calls of several
    // threads, and questions that are asked one behind the other, do not wait for each other's
    // answers. Calls that do not wait, and those that came
    // before the answer left, end no pause: the program had not heard the answer. Bytes in memory
    // (false) are no network.
    void over_network(bool is) { networked_ = is; }
    void answered();
    // A call that waits for its answer is next. By the receiving thread, as received().
    void asked()
    {
        const int64_t at = answered_.load(std::memory_order_relaxed);
        if (at && received_ > at) add_pause(received_ - at);
    }
    // For this long a large body came, or left.
    void moved(int64_t nanoseconds)
    {
        if (networked_) link_->network.fetch_add(nanoseconds, std::memory_order_relaxed);
    }

    // How much memory the lease has on the current context's GPU now, if nobody looked for a
    // moment; the meter keeps the most. Called before it becomes less: memory is freed, a context
    // or the program ends.
    void look_at_memory(bool at_once = false);

private:
    Metering();
    void note_received();
    void add_pause(int64_t nanoseconds);
    serverd::LeaseMeter *lease_;
    serverd::LinkMeter *link_;
    std::atomic<bool> networked_{true};
    // When the first answer left since the program asked last; 0: none has.
    std::atomic<int64_t> answered_{0};
    int64_t received_ = 0;                  // when bytes came last while an answer was out
    int64_t round_trip_ = INT64_MAX;        // the receiving thread's, as the next
    static constexpr size_t kTooShort = 8;  // one of so many
    std::array<int64_t, 64> first_;         // pauses
    size_t pauses_ = 0;                     // of these
    const serverd::Meter *meter_ = nullptr;
    std::vector<uint64_t> places_;
    std::atomic<int64_t> looked_{0};
};

}  // namespace rgpu::worker
