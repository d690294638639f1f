// SPDX-License-Identifier: Apache-2.0
// What of rgpu must be in a container, and how the runtimes are told: nothing here touches the
// container itself.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "util/config.h"
#include "util/result.h"

namespace rgpu::cli {

// Where the lease file and the libraries lie in every container, in a tmpfs of their own: an image
// keeps an empty directory of it, no more.
constexpr const char *kInContainer = "/run/rgpu";

// Text of a process's environment, "NAME=VALUE" each; of several with one name the last counts, as
// for the runtimes.
using Environment = std::vector<std::string>;
const std::string *find_variable(const Environment &environment,
                                 const std::string &name);  // whole "NAME=VALUE", or null
std::string value_of(const Environment &environment,
                     const std::string &name);  // empty where it is not set
void set_variable(Environment &environment, const std::string &name, const std::string &value);

struct BindMount {
    std::string source, destination;
};

struct ContainerParts {
    std::string directory;  // kInContainer, or another place where that cannot be made: a tmpfs
    std::vector<BindMount> mounts;   // of files, in this order, all read-only
    std::vector<BindMount> devices;  // of device files, for a runtime that makes /dev itself
    std::vector<std::pair<std::string, std::string>> environment;
    std::vector<std::string> warnings;

    bool empty() const { return mounts.empty(); }
};

// A container that is about to start.
struct Container {
    std::string rootfs;
    Environment environment;  // its process's
    std::vector<std::string> tmpfs =
        {};  // where it gets an empty file system: these can be written to
};

// The lease file of the job that `environment` is of, on this host: RGPU_LEASE, else where the
// node's prolog puts it. Empty where it has none.
std::string lease_of(const Environment &environment, const SlurmConfig &config);

// What this container needs for this lease. Fails where the lease or libcuda.so.1 cannot be read.
Result<ContainerParts> parts_for(const Container &container, const std::string &lease,
                                 const std::string &interposer_dir);

// Puts them into an OCI runtime's configuration (config.json) whose bundle is in `bundle`. The
// lease is that of the process that asks (`own`), with those of its GPUs that CUDA_VISIBLE_DEVICES
// names there; else that of the container's environment. Nothing changes where there is none, or
// where it is in it already. Returns the warnings.
Result<std::vector<std::string>> add_to_bundle(nlohmann::ordered_json &config,
                                               const std::string &bundle, const Environment &own,
                                               const SlurmConfig &slurm,
                                               const std::string &interposer_dir);

// The mounts as lines of fstab(5), with the option x-create that enroot has.
std::string as_fstab(const ContainerParts &parts);

}  // namespace rgpu::cli
