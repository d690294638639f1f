// SPDX-License-Identifier: Apache-2.0
// The groups and their workers. One thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "spawner/protocol.h"
#include "util/fd.h"

namespace rgpu::spawner {

class Groups {
public:
    // `caches` and `images` are folders that only root changes.
    Groups(const Settings &settings, Fd caches, Fd images)
        : settings_(settings), caches_(std::move(caches)), images_(std::move(images))
    {}
    bool empty() const { return all_.empty(); }

    // Whatever stands in a request is checked. `process` becomes the worker's pidfd that goes with
    // the answer, and stays the group's. False: it is no request.
    bool carry_out(const Request &request, const std::vector<Fd> &descriptors, Answer &answer,
                   int &process);
    // Nobody is there who asks for workers: those groups that have none left end.
    void end_idle();

private:
    // A worker; or a group's first process, with what the group is. The kernel keeps one that has
    // ended, and its pid, until somebody asks how.
    struct Process {
        explicit Process(pid_t pid);
        pid_t pid;
        Fd process;
        uid_t uid = 0;
        gid_t gid = 0;
        std::vector<gid_t> ids;
        bool ending = false;
        bool ended() const;
        int take() const;
    };
    using Name = std::string;  // a group's key, and a worker's name behind it
    // Each answers with an errno; 0: done.
    int make(const Request &request);
    int start(const Request &request, const std::vector<Fd> &descriptors, Answer &answer,
              int &process);
    int signal(const Request &request) const;
    int reap(const Request &request, int &status);
    // EBUSY: some of it lives; to be asked again.
    int end(const std::string &key);
    // The entry behind that one.
    int next(const Name &behind, Answer &answer, int &process) const;

    bool in_pool(uid_t u) const { return u >= settings_.pool_low && u <= settings_.pool_high; }
    bool allows_group(uid_t uid, gid_t gid) const;
    bool allows(const Request &request) const;
    pid_t spawn(const Process &group, const Request &request, const std::vector<Fd> &descriptors);

    const Settings settings_;
    const Fd caches_, images_;
    std::map<Name, Process> all_;
};

}  // namespace rgpu::spawner
