// SPDX-License-Identifier: Apache-2.0
// A thread that does something again and again, and can be stopped between two times.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "util/units.h"

namespace rgpu {

// start() and stop() belong to one thread; the work is done in the object's own.
class Periodic {
public:
    Periodic() = default;
    Periodic(const Periodic &) = delete;
    ~Periodic() { stop(); }

    // The first time is one period from now. At most once.
    void start(Milliseconds period, std::function<void()> work);
    // Waits for the work that is under way. Also where it was never started, and again.
    void stop();

private:
    void run(Milliseconds period);

    std::function<void()> work_;
    std::thread thread_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool ending_ = false;
};

}  // namespace rgpu
