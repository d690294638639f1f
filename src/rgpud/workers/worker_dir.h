// SPDX-License-Identifier: Apache-2.0
// What is known of running workers outside rgpud's memory, so that the next rgpud finds them.
//
// Below [rgpud] state_dir there is for each worker NAME.lease, which says in JSON whose it is, and
// NAME.socket, its control socket. Whether it lives, the spawner says. Of a worker that rgpud
// started itself NAME.process has the pid and the time of its start; nothing that a worker holds or
// says decides. NAME.client is there once the worker has a client.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "pool/messages/messages.h"
#include "util/fd.h"
#include "util/result.h"

namespace rgpu::serverd {

class WorkerDir {
public:
    // Makes the directory, closed to all but rgpud.
    static Result<WorkerDir> open(const std::string &path);

    // A worker's files before it is started.
    struct Made {
        std::string name;  // 16 digits of hex
        Fd control;        // bound: the worker, to whom it goes, listens
    };
    Result<Made> make(const pool::Lease &lease);
    // After it was started by rgpud itself.
    void note_process(const std::string &name, pid_t pid) const;
    // Before a client is told that it has it.
    void note_client(const std::string &name) const;

    // The workers of an rgpud before this one.
    struct Found {
        std::string name;
        pool::Lease lease;  // without secret
        pid_t pid = 0;      // of one that was noted, and lives; else 0
        Fd process;
        bool had_client = false;
    };
    std::vector<Found> find();

    // A connection to its control socket, where it is this process that listens. Fails with
    // `unavailable` when it does not (yet).
    Result<Fd> reach(const std::string &name, pid_t pid) const;
    // It has just been started, and does not listen yet.
    bool is_starting(const std::string &name) const;
    void remove(const std::string &name) const;

private:
    explicit WorkerDir(Fd dir, std::string path) : dir_(std::move(dir)), path_(std::move(path)) {}
    std::string socket_path(const std::string &name) const;

    Fd dir_;
    std::string path_;
};

}  // namespace rgpu::serverd
