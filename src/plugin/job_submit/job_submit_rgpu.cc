// SPDX-License-Identifier: Apache-2.0
// job_submit_rgpu.so: carries what slurmctld knows of a job to decision.h, and the answer back.
//
// Runs in slurmctld under its locks: the one file it reads is the pool snapshot (a few pages).
// Uses Slurm's public headers only, but for the one function described at job_common_env_vars.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include "plugin/guard.h"
#include "plugin/job_submit/decision.h"
#include "plugin/job_submit/gpu_habits.h"
#include "slurm/terms/licences.h"
#include "util/next_token.h"

// What is handed to slurmctld, or freed there, comes from its own allocator; these are exported by
// it, but no public header declares them.
extern "C" {
char *slurm_xstrdup(const char *);
void *slurm_xcalloc(size_t count, size_t size, bool clear, bool may_fail, const char *file,
                    int line, const char *function);
void slurm_xfree(void **);

// The variables that slurmctld gives to PrologSlurmctld. An update carries only what it changes and
// job_record_t is opaque, so this is how the plugin learns what the job has. Exported by every
// slurmctld since 20.11; weak, so that the plugin also loads (and is stricter) where it is not.
[[gnu::weak]] char **job_common_env_vars(void *job_record, bool is_complete);

// slurm.conf as slurmctld has read it: its type is public, and plugins of Slurm's own read it.
[[gnu::weak]] extern slurm_conf_t slurm_conf;
}

namespace rgpu::plugin {
namespace {

// Ours in the job's control environment, beside kNodesMark: of a range of nodes the licences of
// one, and the type in rgpu:TYPE:N.
constexpr const char *kEach = "RGPU_EACH";
constexpr const char *kType = "RGPU_TYPE";
constexpr const char *kMarks[] = {slurm::kNodesMark, kEach, kType, slurm::kTypesMark,
                                  slurm::kSallocMark};

std::string_view text(const char *s) { return s ? s : ""; }

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
    if (err_msg) *err_msg = slurm_xstrdup(("rgpu: " + sentence).c_str());
}

// A snapshot that is missing or spoilt refuses nobody; slurmctld's log says so.
std::optional<slurm::Snapshot> pool_snapshot()
{
    auto pool = slurm::read_snapshot(slurm::snapshot_path());
    if (pool) return std::move(*pool);
    slurm_info(
        "job_submit/rgpu: jobs are not checked against the size of the pool: %s; `rgpu slurm sync` "
        "writes this file",
        pool.error().text.c_str());
    return {};
}

// Slurm 23.02: "Limit het job license requests to the leader job only".
constexpr bool kLicencesOfLeaderOnly = SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0);

unsigned count_names(const char *hosts)
{
    if (!hosts || !*hosts) return 0;
    auto list = slurm_hostlist_create(
        hosts);  // its type is hostlist_t in Slurm 22.05, hostlist_t * in 24.11
    if (!list) return 0;
    int n = slurm_hostlist_count(list);
    slurm_hostlist_destroy(list);
    return n > 0 ? static_cast<unsigned>(n) : 0;
}

// get(variable) is the value of a variable, nothing where it is not set.
template <class Get> Options options_of(Get &&get)
{
    static const std::string share = slurm::option_variable("rgpu-share"),
                             memory = slurm::option_variable("rgpu-mem");
    static const std::string span = slurm::option_variable(slurm::kSpanOption);
    static const auto filters = [] {
        std::vector<std::pair<const slurm::FilterOption *, std::string>> all;
        for (const slurm::FilterOption &option : slurm::filter_options())
            all.emplace_back(&option, slurm::option_variable(option.name));
        return all;
    }();
    Options out;
    out.share = get(share);
    out.memory = get(memory);
    out.span = get(span).has_value();
    for (const auto &[option, variable] : filters)
        if (auto value = get(variable)) out.filters.emplace_back(option, *value);
    return out;
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
    if (&slurm_conf) out.types_sold = slurm::types_sold(text(slurm_conf.licenses));
    out.options = options_of([&](const std::string &name) {
        std::optional<std::string_view> found;
        for (uint32_t i = 0; i < job.spank_job_env_size; ++i)
            if (auto value = value_of(text(job.spank_job_env[i]), name)) found = value;
        return found;
    });
    return out;
}

void replace(char *&slurm_string, const std::string &value)
{
    slurm_xfree(reinterpret_cast<void **>(&slurm_string));
    slurm_string = slurm_xstrdup(value.c_str());
}

bool is_mark(std::string_view entry)
{
    for (const char *mark : kMarks)
        if (value_of(entry, mark)) return true;
    return false;
}

// Puts these at the end of an array of strings that is Slurm's.
void append(char **&array, uint32_t &size, const std::vector<std::string> &strings)
{
    auto **fresh = static_cast<char **>(slurm_xcalloc(size + strings.size() + 1, sizeof(char *),
                                                      true, false, __FILE__, __LINE__, __func__));
    std::copy_n(array, size, fresh);
    for (const std::string &string : strings) fresh[size++] = slurm_xstrdup(string.c_str());
    slurm_xfree(reinterpret_cast<void **>(&array));
    array = fresh;
}

// Puts our marks, "NAME=value", into the job's control environment; those that the user forged go.
void note(job_desc_msg_t &job, const std::vector<std::string> &marks)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < job.spank_job_env_size; ++i) {
        char *entry = job.spank_job_env[i];
        if (entry && is_mark(entry))
            slurm_xfree(reinterpret_cast<void **>(&entry));
        else
            job.spank_job_env[kept++] = entry;
    }
    job.spank_job_env_size = kept;
    append(job.spank_job_env, job.spank_job_env_size, marks);
}

bool has_forged_marks(const job_desc_msg_t &job)
{
    for (uint32_t i = 0; i < job.spank_job_env_size; ++i)
        if (is_mark(text(job.spank_job_env[i]))) return true;
    return false;
}

// salloc's shell, which Slurm does not start on the node.
bool stays_here(const job_desc_msg_t &job)
{
    if (!&slurm_conf || has_token(text(slurm_conf.launch_params), "use_interactive_step"))
        return false;
    for (uint32_t i = 0; i < job.spank_job_env_size; ++i)
        if (value_of(text(job.spank_job_env[i]), slurm::kSallocMark)) return true;
    return false;
}

std::vector<std::string> marks_of(const Terms &terms)
{
    std::vector<std::string> out{std::string(slurm::kNodesMark) + "=" +
                                 slurm::to_text(terms.nodes)};
    if (terms.nodes.range()) out.push_back(std::string(kEach) + "=" + std::to_string(terms.each));
    if (!terms.type.empty()) out.push_back(std::string(kType) + "=" + terms.type);
    std::string types;
    for (const std::string &type : terms.types) types += (types.empty() ? "" : ",") + type;
    if (!types.empty()) out.push_back(std::string(slurm::kTypesMark) + "=" + types);
    return out;
}

bool names_rgpu_anywhere(const Submission &job)
{
    for (std::string_view s : {job.tres_per_node, job.tres_per_job, job.tres_per_socket,
                               job.tres_per_task, job.licences})
        if (s.find("rgpu") != s.npos) return true;
    return false;
}

// Where a node may have GPUs of its own, Slurm's options for GPUs mean those. GresTypes must name
// gpu all the same: Slurm's commands refuse the options by themselves otherwise.
bool nodes_have_gpus(const std::optional<slurm::Snapshot> &pool)
{
    if (&slurm_conf && !has_token(text(slurm_conf.gres_plugins), "gpu")) return false;
    return !pool || !pool->facts.no_node_gpus;
}

void clear(char *&slurm_string) { slurm_xfree(reinterpret_cast<void **>(&slurm_string)); }

// Takes these variables from the environment of a batch script.
void forget_variables(job_desc_msg_t &job, std::initializer_list<const char *> names)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; job.environment && i < job.env_size; ++i) {
        char *entry = job.environment[i];
        const bool goes = std::any_of(names.begin(), names.end(), [&](const char *name) {
            return value_of(text(entry), name).has_value();
        });
        if (goes)
            clear(entry);
        else
            job.environment[kept++] = entry;
    }
    if (!job.environment) return;
    // Slurm goes by the number, and elsewhere by the null at the end.
    std::fill(job.environment + kept, job.environment + job.env_size, nullptr);
    job.env_size = kept;
}

void apply(job_desc_msg_t &job, const Translation &translation)
{
    replace(job.tres_per_node, translation.tres_per_node);
    for (char **gone : {&job.tres_per_job, &job.tres_per_task, &job.cpus_per_tres,
                        &job.mem_per_tres, &job.tres_bind, &job.tres_freq})
        clear(*gone);
    if (translation.cpus_per_task) {
        job.cpus_per_task = static_cast<uint16_t>(*translation.cpus_per_task);
        job.min_cpus = *translation.cpus_per_task *
                       std::max(1u, optional_number(job.num_tasks).value_or(1));
    }
    if (translation.memory) job.pn_min_memory = *translation.memory;
    // srun in the script would read these, and ask its step for the same GPUs again.
    forget_variables(job, {"SLURM_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK",
                           "SLURM_GPUS_PER_SOCKET", "SLURM_CPUS_PER_GPU", "SLURM_MEM_PER_GPU",
                           "SLURM_GPU_BIND", "SLURM_GPU_FREQ"});
}

// Answers or translates what asks for GPUs that no node has; true where it was translated.
Result<bool> mend_habits(job_desc_msg_t &job, const slurm::Snapshot *pool, char **err_msg)
{
    GpuHabits asked;
    asked.cpus_per_tres = text(job.cpus_per_tres);
    asked.mem_per_tres = text(job.mem_per_tres);
    asked.tres_bind = text(job.tres_bind);
    asked.tres_freq = text(job.tres_freq);
    asked.batch = job.script != nullptr && job.environment != nullptr;
    asked.translate = pool && pool->facts.gpus_mean_rgpu;
    auto translation = translate_habits(submission_of(job), asked);
    if (!translation) return translation.error();
    if (!*translation) return false;
    apply(job, **translation);
    tell(err_msg, (*translation)->told);
    return true;
}

bool names_gpus(const job_desc_msg_t &job)
{
    for (const char *tres :
         {job.tres_per_node, job.tres_per_job, job.tres_per_socket, job.tres_per_task,
          job.cpus_per_tres, job.mem_per_tres, job.tres_bind, job.tres_freq})
        if (text(tres).find("gpu") != std::string_view::npos) return true;
    return false;
}

int submit(job_desc_msg_t &job, char **err_msg)
{
    // The node takes this one for ours.
    if (job.script) forget_variables(job, {slurm::kNodesMark});
    std::optional<slurm::Snapshot> pool;
    if (names_gpus(job)) pool = pool_snapshot();
    if (names_gpus(job) && !nodes_have_gpus(pool)) {
        if (auto mended = mend_habits(job, pool ? &*pool : nullptr, err_msg); !mended) {
            tell(err_msg, mended.error().text);
            return ESLURM_INVALID_GRES;
        }
    }
    Submission submission = submission_of(job);
    if (!names_rgpu_anywhere(submission) && !has_forged_marks(job)) {
        if (submission.options.any())
            tell(err_msg, "the options --rgpu-... say which GPUs, and how much of each; without "
                          "--gres=rgpu:N there is none");
        return SLURM_SUCCESS;
    }
    if (!pool) pool = pool_snapshot();
    auto judged = judge_submission(submission, pool ? &*pool : nullptr);
    if (!judged) {
        tell(err_msg, judged.error().text);
        return ESLURM_INVALID_GRES;
    }
    const std::optional<Terms> &terms = *judged;
    if (terms && kLicencesOfLeaderOnly && job.het_job_offset != 0 && job.het_job_offset != NO_VAL) {
        tell(err_msg, "Slurm (23.02 and newer) gives licences to the first part of a heterogeneous "
                      "job alone: ask for all of its GPUs "
                      "of the pool there");
        return ESLURM_INVALID_GRES;
    }
    if (terms && stays_here(job))
        tell(err_msg, "this shell stays where it is, without GPUs: start programs with srun, which "
                      "runs them on the job's node");
    note(job, terms ? marks_of(*terms) : std::vector<std::string>());
    if (terms) {
        replace(job.licenses, terms->licences);
        job.min_nodes = terms->nodes.least;
        job.max_nodes = terms->nodes.most;
        // The node does not let the script begin without its GPUs, whatever became of its Prolog.
        if (job.script && job.environment)
            append(job.environment, job.env_size,
                   {std::string(slurm::kNodesMark) + "=" + slurm::to_text(terms->nodes)});
    }
    return SLURM_SUCCESS;
}

// The variables of a job in slurmctld, freed with the object.
class JobVariables {
public:
    explicit JobVariables(void *job)
        : entries_(job_common_env_vars ? job_common_env_vars(job, false) : nullptr)
    {}
    JobVariables(const JobVariables &) = delete;
    JobVariables &operator=(const JobVariables &) = delete;
    ~JobVariables()
    {
        for (char **e = entries_; e && *e; ++e) slurm_xfree(reinterpret_cast<void **>(e));
        if (entries_) slurm_xfree(reinterpret_cast<void **>(&entries_));
    }

    bool known() const { return entries_ != nullptr; }
    std::optional<std::string_view> get(std::string_view name) const
    {
        for (char **e = entries_; e && *e; ++e)
            if (auto value = value_of(*e, name)) return value;
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
    out.id = variables.get("SLURM_JOB_ID").value_or("");
    out.options =
        options_of([&](const std::string &name) { return variables.get("SPANK_" + name); });
    auto mark = [&](const char *name) {
        return variables.get(std::string("SPANK_") + name).value_or("");
    };
    out.nodes = slurm::parse_nodes(mark(slurm::kNodesMark));
    out.each = strtoul(std::string(mark(kEach)).c_str(), nullptr, 10);
    out.type = mark(kType);
    std::string_view node_list = variables.get("SLURM_JOB_NODELIST").value_or("");
    out.running = !node_list.empty() && node_list != "(null)";
    return out;
}

int modify(job_desc_msg_t &change, void *job, uint32_t uid, char **err_msg)
{
    Update update;
    update.tres_per_node = optional_text(change.tres_per_node);
    update.licences = optional_text(change.licenses);
    update.min_nodes = optional_number(change.min_nodes);
    update.max_nodes = optional_number(change.max_nodes);
    if (!update.tres_per_node && !update.licences && !update.min_nodes && !update.max_nodes)
        return SLURM_SUCCESS;
    update.by_slurm = uid == 0 || uid == geteuid();
    JobVariables variables(job);
    auto pool = update.tres_per_node ? pool_snapshot() : std::nullopt;
    auto judged = judge_update(known_job(variables), update, pool ? &*pool : nullptr);
    if (!judged) {
        tell(err_msg, judged.error().text);
        // scontrol before 23.02 shows the user the code's text only.
        slurm_info("job_submit/rgpu: update refused: %s", judged.error().text.c_str());
        return update.tres_per_node ? ESLURM_INVALID_GRES
               : update.licences    ? ESLURM_INVALID_LICENSES
                                    : ESLURM_INVALID_NODE_COUNT;
    }
    if (*judged) replace(change.licenses, **judged);
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

int job_modify(job_desc_msg_t *change, void *job, uint32_t uid, char **err_msg)
{
    return guard("job_modify", SLURM_ERROR,
                 [&] { return rgpu::plugin::modify(*change, job, uid, err_msg); });
}
}
