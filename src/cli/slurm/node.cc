// rgpu slurm node-prolog, node-epilog: a job's lease file on its node.
//
// For Prolog and Epilog of slurmd, as root. They end with 0 unless this node itself is unfit, for
// Slurm drains a node whose prolog or epilog fails.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "cli/slurm/job_command.h"
#include "pool/client/acquire.h"
#include "pool/client/client.h"
#include "pool/ledger/span.h"
#include "slurm/check/drift.h"
#include "slurm/terms/paths.h"

namespace rgpu::cli {
namespace {

constexpr int kFetchTries = 4;
constexpr mode_t kLeaseMode = 0400;  // the job's user alone: it holds the secrets
constexpr mode_t kErrorMode = 0444;
constexpr time_t kEndedKept =
    30 *
    60;  // s; credentials that let slurmd skip a prolog are good for two minutes unless configured

Error failed(const char *doing, const std::string &path)
{
    return error(ErrorKind::internal, "%s %s: %s", doing, path.c_str(), strerror(errno));
}

std::string folder_of(const std::string &path) { return path.substr(0, path.rfind('/')); }

// A directory of root that all may pass through, with those above it.
Result<void> make_folder(const std::string &path)
{
    for (size_t at = 1; at != path.npos;) {
        at = path.find('/', at + 1);
        std::string part = path.substr(0, at);
        if (mkdir(part.c_str(), 0755) != 0 && errno != EEXIST) return failed("creating", part);
    }
    struct stat status;
    if (lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid())
        return error(ErrorKind::internal, "%s is not a directory of this user; remove it",
                     path.c_str());
    if (chmod(path.c_str(), 0755) != 0) return failed("opening up", path);
    return {};
}

// The file appears whole, or not at all, and never with more rights than it ends with.
Result<void> write_file(const std::string &path, const std::string &text, uid_t owner, mode_t mode)
{
    if (auto folder = make_folder(folder_of(path)); !folder) return folder;
    std::string fresh = path + ".new";
    unlink(fresh.c_str());
    int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return failed("creating", fresh);
    bool good = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                fchmod(fd, mode) == 0 && fchown(fd, owner, static_cast<gid_t>(-1)) == 0;
    if (close(fd) != 0 || !good || rename(fresh.c_str(), path.c_str()) != 0) {
        Error e = failed("writing", fresh);
        unlink(fresh.c_str());
        return e;
    }
    return {};
}

// A slurmctld that died in a job's prolog begins it anew when it is back, and the lease that the
// first one took may lie on a server which the second did not reach. What the job has paid for is
// one request: one lease, or those of one span.
Result<std::vector<pool::Grant>> keep_one(pool::Client &client, const SlurmJob &job,
                                          const std::vector<pool::Grant> &grants)
{
    std::vector<pool::Grant> whole = pool::whole_request(grants), rest;
    if (whole.empty())
        return error(
            ErrorKind::internal,
            "of the GPUs that job %s has of several servers for node %s not all are there any more",
            job.id.c_str(), job.node.c_str());
    for (const pool::Grant &grant : grants)
        if (std::none_of(whole.begin(), whole.end(),
                         [&](const pool::Grant &kept) { return kept.lease.id == grant.lease.id; }))
            rest.push_back(grant);
    if (auto released = client.release(rest); !released)
        tell_of_job(job, std::move(released).error().in("leases too many"));
    return whole;
}

Result<std::vector<pool::Grant>> fetch(Context &context, const SlurmJob &job)
{
    auto client = context.pool();
    if (!client) return client.error();
    const std::string digests = slurm::config_digests(**context.config());
    for (int n = 0;; ++n) {
        auto grants = client->grants(job.id, job.node, digests);
        if (grants && grants->empty())
            return error(ErrorKind::internal,
                         "no server holds a lease of job %s for node %s; did PrologSlurmctld run?",
                         job.id.c_str(), job.node.c_str());
        if (grants) return keep_one(*client, job, *grants);
        if (n + 1 == kFetchTries) return grants;
        std::this_thread::sleep_for(pool::pause(n, 0.5));
    }
}

// Forgets jobs that have not been here for long.
void sweep(const std::string &rundir)
{
    std::error_code failure;
    for (const auto &entry : std::filesystem::directory_iterator(rundir, failure)) {
        std::string ended = slurm::ended_path(entry.path().string() + "/lease.json");
        struct stat status;
        if (stat(ended.c_str(), &status) == 0 && status.st_mtime + kEndedKept < time(nullptr) &&
            unlink(ended.c_str()) == 0)
            rmdir(entry.path().c_str());  // not that of a job which is here again
    }
}

class NodeProlog : public JobCommand {
public:
    int run_for(SlurmJob &job, Context &context) override
    {
        auto config = context.config();
        if (!config) return fail_job(job, config.error());
        std::string path = slurm::lease_path((*config)->slurm.rundir, job.node, job.id);
        auto grants = fetch(context, job);
        // No fault of this node: the job's tasks are refused with this line, and the node stays.
        auto written =
            grants ? write_file(path, pool::lease_file(job.id, *grants), job.uid, kLeaseMode)
                   : write_file(slurm::error_path(path), grants.error().text, 0, kErrorMode);
        if (!written) return fail_job(job, written.error());
        unlink(slurm::ended_path(path).c_str());
        if (!grants) fail_job(job, grants.error());
        return kOk;
    }
};

class NodeEpilog : public JobCommand {
public:
    int run_for(SlurmJob &job, Context &context) override
    {
        auto config = context.config();
        if (!config) return fail_job(job, config.error());
        std::string path = slurm::lease_path((*config)->slurm.rundir, job.node, job.id);
        // slurmd may leave the next run's prolog out where the job comes back soon: its tasks are
        // refused then. Before the lease file goes: a task never finds nothing.
        if (auto noted = write_file(slurm::ended_path(path), "", 0, kErrorMode); !noted)
            return fail_job(job, noted.error());
        for (const std::string &file : {path, path + ".new", slurm::error_path(path)})
            if (unlink(file.c_str()) != 0 && errno != ENOENT)
                return fail_job(job, failed("removing", file));
        // Those that steps of the job locked; they are numbered without gaps.
        for (unsigned place = 0; unlink(slurm::gpu_path(path, place).c_str()) == 0; ++place)
            continue;
        sweep(folder_of(folder_of(path)));
        return kOk;
    }
};

const Registered<NodeProlog> node_prolog{"slurm", "node-prolog",
                                         "for Prolog: write the job's lease file on this node"};
const Registered<NodeEpilog> node_epilog{"slurm", "node-epilog",
                                         "for Epilog: remove the job's lease file"};

}  // namespace
}  // namespace rgpu::cli
