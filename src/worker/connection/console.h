// SPDX-License-Identifier: Apache-2.0
// What kernels print: the driver writes it to this process's standard output, which is a file in
// memory here, so that writing never blocks; drain() passes it on to the client.
#pragma once

#include <mutex>

#include "worker/connection/sender.h"

namespace rgpu::worker {

class Console {
public:
    // Puts the file in place of descriptor 1. Once, before the driver is used.
    bool capture();
    // Sends all that was printed so far. Any thread.
    void drain(Sender &);

private:
    std::mutex mutex_;
    int fd_ = -1;
    long done_ = 0;
};

}  // namespace rgpu::worker
