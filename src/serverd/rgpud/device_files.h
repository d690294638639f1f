// A worker's own /dev: the files that every program needs, and those of its lease's GPUs.
//
// rgpud makes it in the child, before the child becomes the job's user, in a mount namespace of its own: as root, and
// where the kernel lets it (a container may not).
#pragma once

#include <string>
#include <vector>

#include "util/result.h"

namespace rgpu::serverd {

// The names below /dev that workers of this driver need for these GPUs; only such as exist.
// NVIDIA's driver tells in PROC/gpus/*/information which nvidiaN is whose (Documentation of the Linux driver, "The /proc interface");
// where it does not say so of one, all of them are named.
std::vector<std::string> device_names(bool software, const std::vector<std::string> &uuids,
                                      const std::string &dev = "/dev", const std::string &proc = "/proc/driver/nvidia");

// Made ready by the parent; entered in the child after a fork, with async-signal-safe calls only.
class OwnDev {
public:
    OwnDev() = default;  // the host's /dev
    // `at` is an empty directory, which the child covers.
    OwnDev(const std::string &at, const std::vector<std::string> &names);
    // False, with errno, when it cannot be. Does nothing for the host's /dev.
    bool enter() const;

private:
    struct Part {
        std::string from, to;
        bool directory = false;
    };
    std::string at_;
    std::vector<Part> parts_;
};

// Whether children of this process can have one. Tries it in a child of its own.
Result<void> try_own_dev(const std::string &at);

}  // namespace rgpu::serverd
