// SPDX-License-Identifier: Apache-2.0
// run(): the caller and a pool of OS threads work on a grid together.
//
// The pool's threads are the device's multiprocessors, with the caller as one of them. A launch of
// one block wakes nobody; otherwise one thread is woken, which wakes the next while there is work.
#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "softgpu/engine.h"
#include "softgpu/exec/dispatch.h"
#include "softgpu/exec/fault.h"
#include "softgpu/exec/grid.h"

namespace rgpu::softgpu::exec {

namespace {

struct Job {
    Dispatch blocks;
    unsigned helpers = 0;
    std::condition_variable done;
};

unsigned configured_cores()
{
    if (const char *text = getenv("RGPU_SOFTGPU_THREADS")) {
        char *end;
        unsigned long n = strtoul(text, &end, 10);
        if (*text && !*end && n >= 1 && n <= 1024) return static_cast<unsigned>(n);
    }
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return std::max(1u, static_cast<unsigned>(CPU_COUNT(&set)));
    return std::max(1u, std::thread::hardware_concurrency());
}

class Pool {
public:
    // Never destroyed, its threads never joined: programs call the driver until the process is
    // gone.
    static Pool &instance()
    {
        static Pool *pool = new Pool;
        return *pool;
    }

    void run(Grid &grid)
    {
        Job job{Dispatch(grid), 0, {}};
        bool shared = grid.more_than_one_block() && cores() > 1;
        if (shared) {
            std::lock_guard lock(mutex_);
            if (!started_) start();
            jobs_.push_back(&job);
            wake_.notify_one();
        }
        work(job.blocks, 0);
        if (!shared) return;
        std::unique_lock lock(mutex_);
        std::erase(jobs_, &job);
        job.done.wait(lock, [&] { return job.helpers == 0; });
    }

private:
    // Signals for the program go to the program's threads; only faults are ours.
    void start()
    {
        sigset_t all, before;
        sigfillset(&all);
        for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&all, s);
        pthread_sigmask(SIG_BLOCK, &all, &before);
        for (unsigned i = 1; i < cores(); ++i) {
            try {
                std::thread(&Pool::loop, this, i).detach();
            } catch (const std::system_error &) {
                break;  // as many as the system gives: the caller always works
            }
        }
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        started_ = true;
    }

    static void work(Dispatch &blocks, unsigned sm_id)
    {
        WorkerScope worker(sm_id);
        blocks.work(worker.worker);
    }

    Job *wanting()
    {
        auto found = std::find_if(jobs_.begin(), jobs_.end(),
                                  [](Job *j) { return j->blocks.wants_hands(); });
        return found == jobs_.end() ? nullptr : *found;
    }

    void loop(unsigned sm_id)
    {
        std::unique_lock lock(mutex_);
        for (;;) {
            Job *job = wanting();
            if (!job) {
                wake_.wait(lock);
                continue;
            }
            // To the end of the line, so that grids that run together share the cores.
            std::erase(jobs_, job);
            jobs_.push_back(job);
            ++job->helpers;
            if (wanting()) wake_.notify_one();
            lock.unlock();
            work(job->blocks, sm_id);
            lock.lock();
            if (--job->helpers == 0) job->done.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<Job *> jobs_;
    bool started_ = false;
};

std::optional<Fault> refuse(const Launch &launch)
{
    uint64_t threads = launch.block.count();
    if (threads >= 1 && threads <= kMaxBlockThreads && launch.grid.count() >= 1) return {};
    return Fault{FaultKind::out_of_resources, 0,
                 "a block has 1 to 1024 threads and a grid at least one block"};
}

}  // namespace

}  // namespace rgpu::softgpu::exec

namespace rgpu::softgpu {

using namespace exec;

unsigned cores()
{
    static const unsigned n = configured_cores();
    return n;
}

std::optional<Fault> run(const LoadedKernel &kernel, const Launch &launch)
{
    if (auto fault = refuse(launch)) return fault;
    Grid grid(static_cast<const KernelCode &>(kernel), launch);
    Pool::instance().run(grid);
    grid.flush();
    return grid.take_fault();
}

}  // namespace rgpu::softgpu
