// Threads that wait for the GPU so that the dispatcher does not have to.
//
// run() hands a job to an idle thread or starts one. Their number is bounded by the client: each job is a
// client thread that waits, or a stream with copies to the host under way.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace rgpu::worker {

class Waiters {
public:
    void run(std::function<void()> job);

private:
    void work();

    std::mutex mutex_;
    std::condition_variable wanted_;
    std::deque<std::function<void()>> jobs_;
    size_t idle_ = 0;
};

}  // namespace rgpu::worker
