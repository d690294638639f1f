// SPDX-License-Identifier: Apache-2.0
// Asks the pool's servers again and again, in a thread of its own: often while somebody looks,
// seldom while nobody does. Slurm's queue is asked for in another: where slurmctld does not answer,
// squeue waits for minutes.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "pool/client/client.h"
#include "util/clock.h"
#include "util/units.h"
#include "web/data/queue.h"
#include "web/data/seen.h"

namespace rgpu::web {

class Watcher {
public:
    // `told` is called in the watcher's thread, after each round. Between two rounds are `watched`
    // while somebody looks, else `unwatched`.
    using Told = std::function<void(const Seen &)>;
    Watcher(pool::Client client, Tool tool, Milliseconds watched, Milliseconds unwatched,
            Told told);
    ~Watcher();

    void start();
    // Somebody looks from now on, and is told at once; or nobody does any more. Any thread.
    void look(bool somebody);
    void stop();

private:
    void run();
    void ask();
    void ask_pool();

    // What both threads have. That of Slurm may outlive the watcher, in squeue.
    struct Slurm {
        std::mutex mutex;
        std::condition_variable wake;
        pool::Inventories pool;  // as it was seen last
        Queue queue;
        bool ending = false;
    };
    static void run_slurm(const std::shared_ptr<Slurm> &slurm, const Tool &tool);

    pool::Client client_;
    const Tool tool_;
    const std::shared_ptr<Slurm> slurm_ = std::make_shared<Slurm>();
    const Milliseconds watched_, unwatched_;
    const Told told_;
    Seen seen_;  // of the thread
    Time asked_health_{};
    std::thread thread_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool somebody_ = false, at_once_ = false, ending_ = false;
};

}  // namespace rgpu::web
