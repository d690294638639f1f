// SPDX-License-Identifier: Apache-2.0
// What becomes of a job whose GPU server is gone: [slurm] lost_server of rgpu.conf. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "slurm/jobs/record.h"
#include "util/config.h"

namespace rgpu::slurm {

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

// What a LostServer says whose worker for the job died, while the server lives.
inline constexpr const char *kDied = "its worker on server ";
// "; a run before lost its worker on server ...", where the job's note says so: what is written in
// its place says it, too. Empty otherwise.
std::string died_before(std::string_view comment);

// The worker died, as it did in an earlier run of the job: that the job itself is the cause is
// likely enough for a person to look.
bool dies_again(const JobRecord &job, const std::vector<LostServer> &lost);

// What the note of a job says that runs and is left.
inline constexpr const char *kRunsOn = "it cannot be requeued, and runs on";

// The job failed by itself, as one does whose program gets an error of each call: not cancelled,
// not out of time.
bool failed_by_itself(const JobRecord &job);

// What happened to a job that has lost these: "lost server gpu1 (gpu1:7710): Connection refused".
std::string what_happened(const std::vector<LostServer> &lost);

// The servers that the job's next runs avoid: those of its record, and those that it has lost now.
std::vector<Avoided> avoided_after(const SlurmConfig &slurm, const JobRecord &record,
                                   const std::vector<LostServer> &lost, int64_t now);

// The command that does it to the job (what scontrol calls it: "17", "14_3"; of a heterogeneous job
// the leader), empty where nothing is done; and in words what the job is then. `running`: the job
// runs, otherwise it has just failed.
struct FateStep {
    std::vector<std::string> command;
    std::string done;
};
FateStep step_of(Fate fate, const std::string &job, bool running);

}  // namespace rgpu::slurm
