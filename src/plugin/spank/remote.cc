// Puts the interposer into the environment of tasks whose job has leases.
#include "plugin/spank/remote.h"

#include <cstdlib>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin/spank/settings.h"

namespace rgpu::plugin {
namespace {

// The job's value of a variable, whatever its length; empty where it has none.
std::string job_variable(spank_t spank, const char *name)
{
    std::string value(4096, '\0');
    for (;;) {
        spank_err_t rc = spank_getenv(spank, name, value.data(), static_cast<int>(value.size()));
        if (rc == ESPANK_NOSPACE && value.size() < (1u << 22)) {
            value.resize(value.size() * 2);
            continue;
        }
        value.resize(rc == ESPANK_SUCCESS ? value.find('\0') : 0);
        return value;
    }
}

// slurmd's name for this node: several may share a host.
std::string node_name(spank_t spank)
{
    if (const char *name = getenv("SLURMD_NODENAME"))
        return name;
    std::string name = job_variable(spank, "SLURMD_NODENAME");
    if (!name.empty())
        return name;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    name = host;
    return name.substr(0, name.find('.'));
}

int set(spank_t spank, const char *name, const std::string &value)
{
    spank_err_t rc = spank_setenv(spank, name, value.c_str(), 1);
    if (rc != ESPANK_SUCCESS)
        slurm_error("rgpu: %s cannot be set: %s", name, spank_strerror(rc));
    return rc;
}

}  // namespace

int remote_user_init(spank_t spank, int count, char **arguments)
{
    auto settings = parse_settings(count, arguments);
    if (!settings) {
        slurm_error("rgpu: %s", settings.error().text.c_str());
        return ESPANK_ERROR;
    }
    uint32_t job = 0;
    if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS)
        return ESPANK_SUCCESS;
    std::string path = lease_path(settings->rundir, node_name(spank), std::to_string(job));
    struct stat status;
    if (stat(path.c_str(), &status) != 0)
        return ESPANK_SUCCESS;
    if (int rc = set(spank, "RGPU_LEASE", path); rc != ESPANK_SUCCESS)
        return rc;
    return set(spank, "LD_LIBRARY_PATH", library_path(*settings, job_variable(spank, "LD_LIBRARY_PATH")));
}

}  // namespace rgpu::plugin
