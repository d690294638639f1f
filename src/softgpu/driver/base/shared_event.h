// SPDX-License-Identifier: Apache-2.0
// What the processes that share an event (CU_EVENT_INTERPROCESS) see of it: how often it was
// recorded, and how many of these records have been passed. In a memory file that all of them map.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "softgpu/driver/base/shared_file.h"

namespace rgpu::softgpu::driver {

// Any thread.
class SharedEvent {
public:
    // `exhausted` without memory or descriptors; open() gives `invalid` when the other process has
    // ended or closed it, or when the file is no event.
    static Result<std::shared_ptr<SharedEvent>> create();
    static Result<std::shared_ptr<SharedEvent>> open(const SharedFileName &);
    ~SharedEvent();

    SharedFileName name() const { return name_of(fd_); }
    // A new record's number, and that it has been passed.
    uint64_t record();
    void pass(uint64_t number);
    uint64_t newest() const { return counters_->recorded; }
    bool passed(uint64_t number) const;
    // Also returns when the process that recorded last has ended.
    void wait(uint64_t number) const;

private:
    struct Counters {
        std::atomic<uint64_t> recorded, passed;
        std::atomic<uint32_t> changes;  // a futex
        std::atomic<int32_t> recorder;  // the process that recorded last
    };
    static Result<std::shared_ptr<SharedEvent>> map(Fd);
    SharedEvent(Fd fd, Counters *counters) : fd_(std::move(fd)), counters_(counters) {}

    const Fd fd_;
    Counters *const counters_;
};

}  // namespace rgpu::softgpu::driver
