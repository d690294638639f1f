// job_submit_rgpu.so: carries what slurmctld knows of a job to decision.h, and the answer back.
//
// Runs in slurmctld under its locks: the one file it reads is the pool snapshot (at most a page).
// Uses Slurm's public headers only, but for the one function described at job_common_env_vars.
#include <cstdlib>
#include <cstring>
#include <new>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include "plugin/guard.h"
#include "plugin/job_submit/decision.h"

// What is handed to slurmctld, or freed there, comes from its own allocator; these are exported by
// it, but no public header declares them.
extern "C" {
char *slurm_xstrdup(const char *);
void *slurm_xcalloc(size_t count, size_t size, bool clear, bool may_fail, const char *file, int line,
                    const char *function);
void slurm_xfree(void **);

// The variables that slurmctld gives to PrologSlurmctld. An update carries only what it changes and
// job_record_t is opaque, so this is how the plugin learns what the job has. Exported by every
// slurmctld since 20.11; weak, so that the plugin also loads (and is stricter) where it is not.
[[gnu::weak]] char **job_common_env_vars(void *job_record, bool is_complete);
}

namespace rgpu::plugin {
namespace {

constexpr const char *kShareOption = "_SLURM_SPANK_OPTION_rgpu_rgpu_share";
constexpr const char *kMemoryOption = "_SLURM_SPANK_OPTION_rgpu_rgpu_mem";
// Ours in the job's control environment: how many nodes its licences were counted for.
constexpr const char *kNodes = "RGPU_NODES";

std::string_view text(const char *s)
{
    return s ? s : "";
}

std::optional<std::string_view> optional_text(const char *s)
{
    return s ? std::optional<std::string_view>(s) : std::nullopt;
}

std::optional<unsigned> optional_number(uint32_t n)
{
    return n == NO_VAL || n == INFINITE || n == 0 ? std::nullopt : std::optional<unsigned>(n);
}

std::optional<unsigned> optional_number16(uint16_t n)
{
    return n == NO_VAL16 || n == INFINITE16 || n == 0 ? std::nullopt : std::optional<unsigned>(n);
}

// The value of NAME=value, where entry is that.
std::optional<std::string_view> value_of(std::string_view entry, std::string_view name)
{
    if (!entry.starts_with(name) || entry.size() <= name.size() || entry[name.size()] != '=')
        return {};
    return entry.substr(name.size() + 1);
}

void tell(char **err_msg, const std::string &sentence)
{
    if (err_msg)
        *err_msg = slurm_xstrdup(("rgpu: " + sentence).c_str());
}

// A snapshot that is missing or spoilt refuses nobody; slurmctld's log says so.
std::optional<Snapshot> pool_snapshot()
{
    auto pool = read_snapshot(snapshot_path());
    if (pool)
        return std::move(*pool);
    slurm_info("job_submit/rgpu: jobs are not checked against the size of the pool: %s; `rgpu slurm sync` "
               "writes this file", pool.error().text.c_str());
    return {};
}

unsigned count_names(const char *hosts)
{
    if (!hosts || !*hosts)
        return 0;
    hostlist_t list = slurm_hostlist_create(hosts);
    if (!list)
        return 0;
    int n = slurm_hostlist_count(list);
    slurm_hostlist_destroy(list);
    return n > 0 ? static_cast<unsigned>(n) : 0;
}

Submission submission_of(const job_desc_msg_t &job)
{
    Submission out;
    out.tres_per_node = text(job.tres_per_node);
    out.tres_per_job = text(job.tres_per_job);
    out.tres_per_socket = text(job.tres_per_socket);
    out.tres_per_task = text(job.tres_per_task);
    out.licences = text(job.licenses);
    out.min_nodes = optional_number(job.min_nodes);
    out.max_nodes = optional_number(job.max_nodes);
    out.tasks = optional_number(job.num_tasks);
    out.tasks_per_node = optional_number16(job.ntasks_per_node);
    out.named_nodes = count_names(job.req_nodes);
    for (uint32_t i = 0; i < job.spank_job_env_size; ++i) {
        std::string_view entry = text(job.spank_job_env[i]);
        if (auto share = value_of(entry, kShareOption))
            out.share = share;
        if (auto memory = value_of(entry, kMemoryOption))
            out.memory = memory;
    }
    return out;
}

void replace(char *&slurm_string, const std::string &value)
{
    slurm_xfree(reinterpret_cast<void **>(&slurm_string));
    slurm_string = slurm_xstrdup(value.c_str());
}

// Puts RGPU_NODES into the job's control environment; one that the user forged goes.
void note_nodes(job_desc_msg_t &job, std::optional<unsigned> nodes)
{
    uint32_t size = job.spank_job_env_size;
    auto **fresh = static_cast<char **>(
        slurm_xcalloc(size + 2, sizeof(char *), true, false, __FILE__, __LINE__, __func__));
    uint32_t kept = 0;
    for (uint32_t i = 0; i < size; ++i) {
        char *entry = job.spank_job_env[i];
        if (entry && value_of(entry, kNodes))
            slurm_xfree(reinterpret_cast<void **>(&entry));
        else
            fresh[kept++] = entry;
    }
    if (nodes)
        fresh[kept++] = slurm_xstrdup((std::string(kNodes) + "=" + std::to_string(*nodes)).c_str());
    slurm_xfree(reinterpret_cast<void **>(&job.spank_job_env));
    job.spank_job_env = fresh;
    job.spank_job_env_size = kept;
}

bool forged_nodes(const job_desc_msg_t &job)
{
    for (uint32_t i = 0; i < job.spank_job_env_size; ++i)
        if (value_of(text(job.spank_job_env[i]), kNodes))
            return true;
    return false;
}

bool names_rgpu_anywhere(const Submission &job)
{
    for (std::string_view s : {job.tres_per_node, job.tres_per_job, job.tres_per_socket, job.tres_per_task,
                               job.licences})
        if (s.find("rgpu") != s.npos)
            return true;
    return false;
}

int submit(job_desc_msg_t &job, char **err_msg)
{
    Submission submission = submission_of(job);
    if (!names_rgpu_anywhere(submission) && !forged_nodes(job)) {
        if (submission.share || submission.memory)
            tell(err_msg, "--rgpu-share and --rgpu-mem say how much of each GPU; without --gres=rgpu:N there is none");
        return SLURM_SUCCESS;
    }
    auto pool = pool_snapshot();
    auto terms = judge_submission(submission, pool ? &*pool : nullptr);
    if (!terms) {
        tell(err_msg, terms.error().text);
        return ESLURM_INVALID_GRES;
    }
    note_nodes(job, *terms ? std::optional<unsigned>((*terms)->nodes) : std::nullopt);
    if (*terms) {
        replace(job.licenses, (*terms)->licences);
        job.min_nodes = job.max_nodes = (*terms)->nodes;
    }
    return SLURM_SUCCESS;
}

// The variables of a job in slurmctld, freed with the object.
class JobVariables {
public:
    explicit JobVariables(void *job) : entries_(job_common_env_vars ? job_common_env_vars(job, false) : nullptr) {}
    JobVariables(const JobVariables &) = delete;
    JobVariables &operator=(const JobVariables &) = delete;
    ~JobVariables()
    {
        for (char **e = entries_; e && *e; ++e)
            slurm_xfree(reinterpret_cast<void **>(e));
        if (entries_)
            slurm_xfree(reinterpret_cast<void **>(&entries_));
    }

    bool known() const { return entries_ != nullptr; }
    std::optional<std::string_view> get(std::string_view name) const
    {
        for (char **e = entries_; e && *e; ++e)
            if (auto value = value_of(*e, name))
                return value;
        return {};
    }

private:
    char **entries_;
};

KnownJob known_job(const JobVariables &variables)
{
    KnownJob out;
    out.known = variables.known();
    out.licences = variables.get("SLURM_JOB_LICENSES").value_or("");
    out.share = variables.get(std::string("SPANK_") + kShareOption);
    out.memory = variables.get(std::string("SPANK_") + kMemoryOption);
    std::string nodes(variables.get(std::string("SPANK_") + kNodes).value_or("0"));
    out.nodes = static_cast<unsigned>(strtoul(nodes.c_str(), nullptr, 10));
    std::string_view node_list = variables.get("SLURM_JOB_NODELIST").value_or("");
    out.running = !node_list.empty() && node_list != "(null)";
    return out;
}

int modify(job_desc_msg_t &change, void *job, char **err_msg)
{
    Update update;
    update.tres_per_node = optional_text(change.tres_per_node);
    update.licences = optional_text(change.licenses);
    update.min_nodes = optional_number(change.min_nodes);
    update.max_nodes = optional_number(change.max_nodes);
    if (!update.tres_per_node && !update.licences && !update.min_nodes && !update.max_nodes)
        return SLURM_SUCCESS;
    JobVariables variables(job);
    auto pool = update.tres_per_node ? pool_snapshot() : std::nullopt;
    auto licences = judge_update(known_job(variables), update, pool ? &*pool : nullptr);
    if (!licences) {
        tell(err_msg, licences.error().text);
        // scontrol before 23.02 shows the user the code's text only.
        slurm_info("job_submit/rgpu: update refused: %s", licences.error().text.c_str());
        return update.tres_per_node ? ESLURM_INVALID_GRES
               : update.licences    ? ESLURM_INVALID_LICENSES
                                    : ESLURM_INVALID_NODE_COUNT;
    }
    if (*licences)
        replace(change.licenses, **licences);
    return SLURM_SUCCESS;
}

}  // namespace
}  // namespace rgpu::plugin

using rgpu::plugin::guard;

#pragma GCC visibility push(default)
extern "C" {

extern const char plugin_name[] = "rgpu: licences for GPUs of the pool";
extern const char plugin_type[] = "job_submit/rgpu";
extern const uint32_t plugin_version = SLURM_VERSION_NUMBER;

int job_submit(job_desc_msg_t *job, uint32_t, char **err_msg)
{
    return guard("job_submit", SLURM_ERROR, [&] { return rgpu::plugin::submit(*job, err_msg); });
}

int job_modify(job_desc_msg_t *change, void *job, uint32_t, char **err_msg)
{
    return guard("job_modify", SLURM_ERROR, [&] { return rgpu::plugin::modify(*change, job, err_msg); });
}

}
