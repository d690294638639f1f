// SPDX-License-Identifier: Apache-2.0
// What each job used over its life, as far as it was seen: samples of its leases' counters, in
// memory. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "pool/messages/messages.h"
#include "web/data/viewer.h"

namespace rgpu::web {

// What a job did between two looks. Parts are percent of the time, of all its GPUs together.
struct Sample {
    int64_t time_ms = 0;  // since the epoch; the end of the time
    double use = 0, blocked = 0, throttled = 0, network = 0;
    double in_per_s = 0, out_per_s = 0;  // bytes
    double memory = 0;                   // bytes of all its GPUs; the most that was seen
};

class Lives {
public:
    // A job has at most so many samples: where there would be more, two become one. So a long life
    // has coarser ones, and all of it stays.
    static constexpr size_t kSamples = 480;
    // So many jobs that have ended are kept, the last ones.
    static constexpr size_t kEnded = 1000;

    // Bytes that leases use now, by their ids.
    using MemoryUsed = std::map<std::string, uint64_t>;
    // What all leases say of themselves at that time.
    void look(int64_t time_ms, const std::vector<pool::LeaseUsage> &usages,
              const MemoryUsed &memory);

    // The name of a lease's job here: Slurm's number, or of a program outside Slurm the lease's.
    static std::string job_of(const pool::LeaseUsage &usage);

    // A job with its samples as JSON; empty: there is none, or the viewer may not see it. Where
    // users have had the same number, the one that runs, or else the last.
    //   {"job", "user", "slurm", "since", "ended", "gpus", "memory", "samples":
    //    [[time, use, blocked, throttled, network, in, out, memory], ...]}
    std::string json(const std::string &job, const Viewer &viewer) const;
    // The last sample of each job that the viewer may see and that holds something now:
    //   {"17": [as above]}
    std::string last_json(const Viewer &viewer) const;

private:
    // Sums over the leases of a job, which only grow; but a lease that ends takes its own away.
    struct Counted {
        double busy = 0, blocked = 0, throttled = 0, network = 0, in = 0, out = 0;
        void grow(const Counted &from, const Counted &to);
    };
    struct Life {
        pool::Owner owner;
        int64_t since = 0;     // seconds since the epoch
        int64_t ended_ms = 0;  // 0: it has not
        size_t gpus = 0;
        uint64_t memory = 0;                    // that it holds
        std::map<std::string, Counted> before;  // of each lease, at the last look
        int64_t looked_ms = 0;
        std::vector<Sample> samples;
        int64_t least_step_ms = 0;  // between two samples
        Sample open;                // gathers until that has passed
        int64_t open_ms = 0;        // how long it has
        bool seen = false;
    };
    using Leases = std::vector<const pool::LeaseUsage *>;
    static Counted counted(const pool::LeaseUsage &lease);
    static void look_at(Life &life, int64_t time_ms, const Leases &leases,
                        const MemoryUsed &memory);
    static void add(Life &life, Sample sample, int64_t length_ms);
    void forget_oldest();

    const Life *find(const std::string &job, const Viewer &viewer) const;

    // By job and uid. Slurm's numbers come again for other users, and a server may say of a lease
    // that it is of any job: so nobody's life has leases of another user.
    using Key = std::pair<std::string, uint32_t>;
    std::map<Key, Life> lives_;
};

}  // namespace rgpu::web
