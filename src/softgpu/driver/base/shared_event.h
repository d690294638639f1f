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
    static Result<std::shared_ptr<SharedEvent>> create();
    static Result<std::shared_ptr<SharedEvent>> open(const SharedFileName &);
    ~SharedEvent();

    SharedFileName name() const { return name_of(fd_); }
    // A new record's number, and that it has been passed.
    uint64_t record();
    void pass(uint64_t number);
    uint64_t newest() const { return state_->recorded; }
    bool passed(uint64_t number) const;
    // Also returns when the process that recorded last has ended.
    void wait(uint64_t number) const;

private:
    struct State {
        std::atomic<uint64_t> recorded, passed;
        std::atomic<uint32_t> changes;  // a futex
        std::atomic<int32_t> recorder;  // the process that recorded last
    };
    static Result<std::shared_ptr<SharedEvent>> map(Fd);
    SharedEvent(Fd fd, State *state) : fd_(std::move(fd)), state_(state) {}

    const Fd fd_;
    State *const state_;
};

}  // namespace rgpu::softgpu::driver
