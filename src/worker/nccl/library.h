// SPDX-License-Identifier: Apache-2.0
// The server's own NCCL, which this worker opens at its program's first call of NCCL: its code
// takes 133 MB of addresses and a moment to load.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "serverd/worker_start.h"
#include "util/result.h"

namespace rgpu::worker::nccl {

// Whether this worker's program may use NCCL: the server offers it, and the GPUs are its alone.
// What NCCL takes of a GPU is not counted, nor does it wait for turns.
bool is_allowed(const serverd::WorkerStart &);

// Any thread.
class Library {
public:
    explicit Library(const serverd::WorkerStart &start)
        : wanted_(start.nccl), interface_(start.nccl_interface)
    {}

    // Opens it once, with these variables of the program's environment (NAME=value), which were
    // checked. Fails with `unavailable`, each time with the same words.
    Result<void> open(const std::vector<std::string> &variables);

    // One of its functions, by name; null where it has none. After open().
    void *function(std::string_view name);
    // What it says of the last error. After open().
    std::string last_error();

private:
    Result<void> open_now(const std::vector<std::string> &variables);

    const std::string wanted_, interface_;
    std::mutex mutex_;
    bool tried_ = false;
    Result<void> opened_;
    void *library_ = nullptr;
    std::map<std::string, void *, std::less<>> functions_;
};

// Before the process ends, in the middle of a call or not: NCCL's files in /dev/shm have names
// until the other rank has opened them, and those that this process still has go.
void remove_files();

}  // namespace rgpu::worker::nccl
