// SPDX-License-Identifier: Apache-2.0
// Builds the paths of lease files.
#include "slurm/terms/paths.h"

namespace rgpu::slurm {
namespace {

std::string in_folder_of(std::string_view lease_path, const std::string &name)
{
    return std::string(lease_path.substr(0, lease_path.rfind('/'))) + "/" + name;
}

}  // namespace

std::string lease_path(std::string_view rundir, std::string_view node, std::string_view job)
{
    std::string out(rundir);
    for (size_t at = 0; (at = out.find("%n", at)) != out.npos; at += node.size())
        out.replace(at, 2, node);
    return out + "/" + std::string(job) + "/lease.json";
}

std::string gpu_path(std::string_view lease_path, unsigned place)
{
    return in_folder_of(lease_path, "gpu." + std::to_string(place));
}

std::string error_path(std::string_view lease_path) { return in_folder_of(lease_path, "error"); }

std::string ended_path(std::string_view lease_path) { return in_folder_of(lease_path, "ended"); }

}  // namespace rgpu::slurm
