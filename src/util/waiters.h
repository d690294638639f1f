// Threads for jobs that wait, so that whoever hands them out does not have to.
//
// run() hands a job to an idle thread or starts one. There is no limit here: the number of jobs that wait at the
// same time is bounded by their nature, which each user states. Jobs may run at the same time and in any order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace rgpu {

class Waiters {
public:
    // Any thread. The object must live as long as the process: its threads do.
    void run(std::function<void()> job);

private:
    void work();

    std::mutex mutex_;
    std::condition_variable wanted_;
    std::deque<std::function<void()>> jobs_;
    size_t idle_ = 0;
};

}  // namespace rgpu
