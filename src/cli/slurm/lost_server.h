// What becomes of a job whose GPU server is gone: [slurm] lost_server of rgpu.conf.
#pragma once

#include <string>
#include <vector>

#include "cli/slurm/record.h"
#include "util/config.h"
#include "util/result.h"

namespace rgpu::cli {

// A server that does not answer, and why not: "server gpu1 (gpu1:7710): Connection refused".
struct LostServer {
    std::string name, why;
    bool avoid = true;  // the job's next runs keep away from it for [slurm] lost_avoid
};

// What is done to a job that has lost a server.
enum class Fate {
    requeue,
    hold,  // requeued, and held
    end,
    leave,  // as it is: it has failed already, or Slurm can start it again neither by itself nor by
            // us
};
// Slurm requeues batch jobs without --no-requeue. One that runs and cannot be requeued is left to
// its user: another part of it may do well without the GPUs, and they may come back.
Fate fate_of(const JobRecord &job, const std::string &lost_server, bool running);

// What the note of a job says that runs and is left.
inline constexpr const char *kRunsOn = "it cannot be requeued, and runs on";

// The job failed by itself, as one does whose program gets an error of each call: not cancelled,
// not out of time.
bool failed_by_itself(const JobRecord &job);

// Does it to the job (what scontrol calls it: "17", "14_3"; of a heterogeneous job the leader), and
// says so in its AdminComment, with the servers that its next run avoids. Returns what was done, in
// words. `running`: the job runs, otherwise it has just failed.
Result<std::string> lose_servers(const SlurmConfig &slurm, const std::string &job,
                                 const JobRecord &record, const std::vector<LostServer> &lost,
                                 bool running);

}  // namespace rgpu::cli
