// SPDX-License-Identifier: Apache-2.0
// The thread that sends calls which were gathered and which nobody waits for, and that reads what
// comes while nobody waits: copies to the host, host functions.
//
// One for each connection. It is never joined: it ends when the connection is lost, and what it
// works on lives as long as it does. While there is nothing for it to do it sleeps, and costs
// nothing.
//
// Failure: where no thread is to be had, the call buffer keeps nothing back; start() may be tried
// again. A thread that lacks the memory to go on loses the connection.
#pragma once

#include <chrono>
#include <functional>

#include "interpose/link/answers.h"
#include "interpose/link/call_buffer.h"
#include "interpose/link/connection.h"

namespace rgpu::interpose {

class Pump {
public:
    // How long gathered calls may wait, and how often the pump looks while it is busy.
    static constexpr auto kDelay = std::chrono::microseconds(50);

    Pump(Connection &connection, CallBuffer &calls, Answers &answers)
        : connection_(connection), calls_(calls), answers_(answers)
    {}
    Pump(const Pump &) = delete;
    Pump &operator=(const Pump &) = delete;

    // Before the first call.
    void start();
    // Starts it where start() could not; whether it runs. Any thread.
    bool ensure();

    // Has `look` called by the pump after kLookDelay, and again after that as long as it returns
    // true. The same for all of a pump. Any thread, but `look` itself.
    void look_later(std::function<bool()> look);
    static constexpr auto kLookDelay = std::chrono::milliseconds(100);

private:
    using Clock = std::chrono::steady_clock;
    void run();
    void look(CallBuffer::Lock &);

    Connection &connection_;
    CallBuffer &calls_;
    Answers &answers_;
    // With the call buffer's lock.
    std::function<bool()> look_;
    Clock::time_point look_at_ = Clock::time_point::max();
};

}  // namespace rgpu::interpose
