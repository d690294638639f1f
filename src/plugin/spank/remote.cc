// Puts the interposer into the environment of tasks whose job has leases.
#include "plugin/spank/remote.h"

#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin/paths.h"
#include "plugin/spank/settings.h"
#include "plugin/spank/watch.h"

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

// Where this job's lease file is, if it has leases on this node; empty if not.
std::string find_lease(spank_t spank, const Settings &settings, uint32_t job)
{
    std::string path = lease_path(settings.rundir, node_name(spank), std::to_string(job));
    struct stat status;
    return stat(path.c_str(), &status) == 0 ? path : std::string();
}

// What the node's prolog left instead of a lease file, when it could not fetch the leases.
std::string prolog_error(spank_t spank, const Settings &settings, uint32_t job)
{
    std::string path = error_path(lease_path(settings.rundir, node_name(spank), std::to_string(job)));
    char text[1024];
    int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return {};
    ssize_t n = read(fd, text, sizeof text);
    close(fd);
    return n > 0 ? std::string(text, static_cast<size_t>(n)) : "no reason is known";
}

// Calls body(settings, job id), with what both callbacks need; without a job there is nothing to do.
template <class Body> int with_job(spank_t spank, int count, char **arguments, Body &&body)
{
    auto settings = parse_settings(count, arguments);
    if (!settings) {
        slurm_error("rgpu: %s", settings.error().text.c_str());
        return ESPANK_ERROR;
    }
    uint32_t job = 0;
    if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS)
        return ESPANK_SUCCESS;
    return body(*settings, job);
}

int set(spank_t spank, const char *name, const std::string &value)
{
    spank_err_t rc = spank_setenv(spank, name, value.c_str(), 1);
    if (rc != ESPANK_SUCCESS)
        slurm_error("rgpu: %s cannot be set: %s", name, spank_strerror(rc));
    return rc;
}

}  // namespace

int remote_post_opt(spank_t spank, int count, char **arguments)
{
    return with_job(spank, count, arguments, [&](const Settings &settings, uint32_t job) -> int {
        std::string lease = find_lease(spank, settings, job);
        if (!lease.empty())
            start_watch(settings, std::to_string(job), lease);
        return ESPANK_SUCCESS;
    });
}

int remote_user_init(spank_t spank, int count, char **arguments)
{
    return with_job(spank, count, arguments, [&](const Settings &settings, uint32_t job) -> int {
        std::string lease = find_lease(spank, settings, job);
        if (lease.empty()) {
            std::string why = prolog_error(spank, settings, job);
            if (why.empty())
                return ESPANK_SUCCESS;
            slurm_error("rgpu: this job's GPUs cannot be used on %s: %s", node_name(spank).c_str(), why.c_str());
            return ESPANK_ERROR;
        }
        if (int rc = set(spank, "RGPU_LEASE", lease); rc != ESPANK_SUCCESS)
            return rc;
        return set(spank, "LD_LIBRARY_PATH", library_path(settings, job_variable(spank, "LD_LIBRARY_PATH")));
    });
}

int remote_exit()
{
    end_watch();
    return ESPANK_SUCCESS;
}

}  // namespace rgpu::plugin
