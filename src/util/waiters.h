// Threads for jobs that wait, so that whoever hands them out does not have to.
//
// run() hands a job to an idle thread or starts one. There is no limit here: the number of jobs that wait at the
// same time is bounded by their nature, which each user states. Jobs may run at the same time and in any order. Where the
// process gets no further thread, they wait for one of those that there are.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace rgpu {

class Waiters {
public:
    // Any thread. The object must live as long as the process: its threads do. Throws where there is no thread, nor one to be had.
    void run(std::function<void()> job);

    // Sees to one thread, so that run() finds one. Throws as it does.
    void prepare();

private:
    void start();
    void work();

    std::mutex mutex_;
    std::condition_variable wanted_;
    std::deque<std::function<void()>> jobs_;
    size_t idle_ = 0, threads_ = 0;
};

}  // namespace rgpu
