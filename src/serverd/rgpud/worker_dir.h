// What is known of running workers outside rgpud's memory, so that the next rgpud finds them.
//
// Below [rgpud] state_dir there is for each worker NAME.lease, which says in JSON whose it is, and NAME.socket,
// its control socket. The worker holds a file lock on the first for as long as it lives: nothing else tells
// so surely whether it does. It begins to listen on the second when it runs; who connects learns its pid
// from the kernel (SO_PEERCRED), not from what it says.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "pool/messages.h"
#include "util/fd.h"
#include "util/result.h"

namespace rgpu::serverd {

class WorkerDir {
public:
    // Makes the directory, closed to all but rgpud.
    static Result<WorkerDir> open(const std::string &path);

    // A worker's files before it is started. Both descriptors go to it and are closed here.
    struct Made {
        std::string name;   // 16 digits of hex
        Fd lock, control;  // control is bound: the worker listens
    };
    Result<Made> make(const pool::Lease &lease);

    // The workers of an rgpud before this one that are alive, or may be. What dead ones left is removed.
    struct Found {
        std::string name;
        pool::Lease lease;  // without secret
    };
    std::vector<Found> find();

    bool is_alive(const std::string &name) const;
    // A descriptor to signal the worker through, and its pid. Fails with `unavailable` when it does not listen
    // yet, or has ended.
    struct Reached {
        pid_t pid = 0;
        Fd process;
        Fd control;  // a connection to it
    };
    Result<Reached> reach(const std::string &name) const;
    void remove(const std::string &name) const;

private:
    explicit WorkerDir(Fd dir, std::string path) : dir_(std::move(dir)), path_(std::move(path)) {}
    std::string socket_path(const std::string &name) const;

    Fd dir_;
    std::string path_;
};

}  // namespace rgpu::serverd
