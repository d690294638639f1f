// SPDX-License-Identifier: Apache-2.0
// The cgroup of a group, which rgpud has made and limited: root moves workers into it, and ends
// what is there.
#pragma once

#include <string>
#include <vector>

#include "spawner/protocol.h"
#include "util/fd.h"

namespace rgpu::spawner {

class Cgroup {
public:
    Cgroup(const Settings &settings, const std::string &key);

    // fork(2), with a child that is in the cgroup. Without v2 that costs up to 40 ms after a pause:
    // the kernel waits for all processors.
    pid_t fork() const;
    // Ends what is in it, and nothing else. False: nothing was.
    bool kill() const;

private:
    std::string first_;  // directory
    Fd into_;
    std::vector<Fd> doors_;  // whoever writes "0" there is moved
};

}  // namespace rgpu::spawner
