// Builds the paths of lease files.
#include "plugin/paths.h"

namespace rgpu::plugin {

std::string lease_path(std::string_view rundir, std::string_view node, std::string_view job)
{
    std::string out(rundir);
    for (size_t at = 0; (at = out.find("%n", at)) != out.npos; at += node.size())
        out.replace(at, 2, node);
    return out + "/" + std::string(job) + "/lease.json";
}

std::string gpu_path(std::string_view lease_path, unsigned place)
{
    return std::string(lease_path.substr(0, lease_path.rfind('/'))) + "/gpu." + std::to_string(place);
}

std::string error_path(std::string_view lease_path)
{
    return std::string(lease_path.substr(0, lease_path.rfind('/'))) + "/error";
}

}  // namespace rgpu::plugin
