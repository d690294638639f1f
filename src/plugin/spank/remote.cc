// SPDX-License-Identifier: Apache-2.0
// Puts the interposer into the environment of tasks whose job has leases.
#include "plugin/spank/remote.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <numeric>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <slurm/slurm.h>

#include "plugin/spank/advice.h"
#include "plugin/spank/fetch.h"
#include "plugin/spank/options.h"
#include "plugin/spank/settings.h"
#include "plugin/spank/shell.h"
#include "plugin/spank/step_gpus.h"
#include "plugin/spank/watch.h"
#include "slurm/terms/nodes.h"
#include "slurm/terms/paths.h"
#include "view/compilers.h"
#include "view/gpus.h"
#include "view/namespaces.h"
#include "view/nccl.h"
#include "view/programs.h"
#include "view/show.h"

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
    if (const char *name = getenv("SLURMD_NODENAME")) return name;
    // The user may have written this one: it becomes a part of paths that root opens.
    std::string name = job_variable(spank, "SLURMD_NODENAME");
    if (!name.empty() && name[0] != '.' && name.find('/') == name.npos) return name;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    name = host;
    return name.substr(0, name.find('.'));
}

// Where this job's lease file is, if it has leases on this node; empty if not.
std::string find_lease(spank_t spank, const Settings &settings, uint32_t job)
{
    std::string path = slurm::lease_path(settings.rundir, node_name(spank), std::to_string(job));
    struct stat status;
    return stat(path.c_str(), &status) == 0 ? path : std::string();
}

uint32_t step_id(spank_t spank)
{
    uint32_t step = 0;
    return spank_get_item(spank, S_JOB_STEPID, &step) == ESPANK_SUCCESS ? step : NO_VAL;
}

// A step that srun made: batch scripts and interactive steps start others, and see all.
bool is_srun_step(spank_t spank) { return step_id(spank) <= SLURM_MAX_NORMAL_STEP_ID; }

// What Slurm's commands call the job: one task of an array has the array's number, by which they
// would mean all of them.
std::string own_name(spank_t spank, uint32_t job)
{
    uint32_t array = 0, task = NO_VAL;
    bool of_array = spank_get_item(spank, S_JOB_ARRAY_ID, &array) == ESPANK_SUCCESS && array != 0 &&
                    array != NO_VAL &&
                    spank_get_item(spank, S_JOB_ARRAY_TASK_ID, &task) == ESPANK_SUCCESS &&
                    task != NO_VAL;
    return of_array ? std::to_string(array) + "_" + std::to_string(task) : std::to_string(job);
}

// This is the batch script of a job with GPUs of the pool. Only of those is it known here:
// job_submit has marked their environment.
bool is_our_script = false;

// A slurmd that is started again in a job's Prolog forgets it, and starts the script beside it.
constexpr auto kPrologLimit = std::chrono::seconds(10);

void await_prolog(const std::string &lease)
{
    const auto end = std::chrono::steady_clock::now() + kPrologLimit;
    const std::string left[] = {lease, slurm::error_path(lease), slurm::ended_path(lease)};
    while (std::none_of(std::begin(left), std::end(left),
                        [](const std::string &path) { return access(path.c_str(), F_OK) == 0; }) &&
           std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

// What the node's prolog left instead of a lease file, when it could not fetch the leases; or that
// it did not run.
std::string prolog_error(spank_t spank, const Settings &settings, uint32_t job)
{
    std::string lease = slurm::lease_path(settings.rundir, node_name(spank), std::to_string(job));
    char text[1024];
    int fd = open(slurm::error_path(lease).c_str(), O_RDONLY | O_CLOEXEC);
    const std::string requeue = "requeue it (scontrol requeue " + std::to_string(job) + ")";
    // A job that Slurm did not start again may have the number of another that was here before
    // slurmctld lost its state.
    if (fd < 0 && access(slurm::ended_path(lease).c_str(), F_OK) == 0 &&
        (is_our_script || !job_variable(spank, "SLURM_RESTART_COUNT").empty()))
        return "slurmd left out the Prolog of this run, and its GPUs could not be fetched without; "
               "slurmd's log on this node says why; " +
               requeue;
    if (fd < 0)
        return is_our_script ? "its Prolog left nothing here, and its GPUs could not be fetched "
                               "without; slurmd's log on this node says why; " +
                                   requeue
                             : "";
    ssize_t n = read(fd, text, sizeof text);
    close(fd);
    return n > 0 ? std::string(text, static_cast<size_t>(n)) : "no reason is known";
}

// The Prolog of this run was left out: the node knows the job from a run before, or knows nothing
// of a script that job_submit has marked.
bool lacks_prolog(spank_t spank, const std::string &lease)
{
    if (access(lease.c_str(), F_OK) == 0 || access(slurm::error_path(lease).c_str(), F_OK) == 0)
        return false;
    return is_our_script || (access(slurm::ended_path(lease).c_str(), F_OK) == 0 &&
                             !job_variable(spank, "SLURM_RESTART_COUNT").empty());
}

void fetch_if_missing(spank_t spank, const Settings &settings, uint32_t job)
{
    const std::string node = node_name(spank);
    uid_t user = 0;
    if (lacks_prolog(spank, slurm::lease_path(settings.rundir, node, std::to_string(job))) &&
        spank_get_item(spank, S_JOB_UID, &user) == ESPANK_SUCCESS)
        fetch_leases(settings, job, user, node);
}

// Calls body(settings, job id), with what both callbacks need; without a job there is nothing to
// do.
template <class Body> int with_job(spank_t spank, int count, char **arguments, Body &&body)
{
    auto settings = parse_settings(count, arguments);
    if (!settings) {
        slurm_error("rgpu: %s", settings.error().text.c_str());
        return ESPANK_ERROR;
    }
    uint32_t job = 0;
    if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS) return ESPANK_SUCCESS;
    return body(*settings, job);
}

int set(spank_t spank, const char *name, const std::string &value)
{
    spank_err_t rc = spank_setenv(spank, name, value.c_str(), 1);
    if (rc != ESPANK_SUCCESS) slurm_error("rgpu: %s cannot be set: %s", name, spank_strerror(rc));
    return rc;
}

// With --rgpus-per-step: places in the lease, or why there are none. Slurm 22.05 lets a step whose
// init_post_opt failed end well, without a word, so its tasks tell.
Result<std::vector<unsigned>> step_gpus = std::vector<unsigned>();

// What this task sees; nothing where it is all.
Result<std::optional<std::vector<unsigned>>> visible(const std::string &lease, unsigned task)
{
    const StepOptions &options = step_options();
    if (options.bind.kind == Bind::none && options.per_step == 0)
        return std::optional<std::vector<unsigned>>{};
    if (!step_gpus) return step_gpus.error();
    std::vector<unsigned> step = *step_gpus;
    if (options.per_step == 0) {
        auto all = gpus_in_lease(lease);
        if (!all) return std::move(all).error();
        step.resize(*all);
        std::iota(step.begin(), step.end(), 0u);
    }
    auto gpus = gpus_of_task(options.bind, step, task);
    if (!gpus) return std::move(gpus).error();
    return std::optional(*gpus);
}

// In the task's own process. After an error of this callback Slurm 22.05 ends it with 0, and after
// one of user_init it runs a batch script all the same.
[[noreturn]] void refuse_task(const std::string &why)
{
    slurm_error("rgpu: %s", why.c_str());
    _exit(1);
}

// Nothing of the user's but the file's numbers and names has a part in it.
Result<void> show_devices(const std::string &lease)
{
    auto gpus = view::read_gpus(lease);
    if (!gpus) return std::move(gpus).error();
    if (auto entered = view::enter_mount_namespace(); !entered) return entered;
    return view::show(*gpus);
}

// Where launchers look for how many processes to start on the node.
constexpr const char *kGpusOnNode = "SLURM_GPUS_ON_NODE";

// Slurm sets both to the node's own GPUs of the step, which our libcuda.so.1 does not know.
bool is_of_local_gpus(spank_t spank)
{
    std::string list = job_variable(spank, "CUDA_VISIBLE_DEVICES");
    return !list.empty() && list == job_variable(spank, "GPU_DEVICE_ORDINAL");
}

// A value from the submitting shell means that machine's GPUs: it becomes the job's, as Slurm's gpu
// plugin does it. One that the job has set stays, and is remarked on where it is wrong.
void mend_devices(spank_t spank, const std::string &lease)
{
    const std::string visible = job_variable(spank, "CUDA_VISIBLE_DEVICES");
    const std::string shell = job_variable(spank, kShellDevices);
    spank_unsetenv(spank, kShellDevices);
    auto gpus = visible.empty() ? Result<unsigned>(0u) : gpus_in_lease(lease);
    if (!gpus || *gpus == 0) return;
    if (visible == shell)
        (void)set(spank, "CUDA_VISIBLE_DEVICES", all_devices(*gpus));
    else if (std::string advice = devices_advice(visible, *gpus); !advice.empty())
        slurm_error("rgpu: %s", advice.c_str());
}

void advise(spank_t spank, const Settings &settings, int task)
{
    std::string advice = interposer_advice(settings);
    if (!advice.empty()) slurm_error("rgpu: %s", advice.c_str());
    // One task of the node asks for all.
    if (task != 0 || !is_srun_step(spank)) return;
    advice = master_advice(job_variable(spank, "MASTER_ADDR"));
    if (!advice.empty()) slurm_error("rgpu: %s", advice.c_str());
}

// A number in SLURM_GPUS_ON_NODE that is not ours is Slurm's, of the node's own GPUs, and stays.
// That of another job, which has submitted this one, equals its RGPU_GPUS.
view::Variables variables_for(spank_t spank, const std::vector<view::Gpu> &gpus,
                              const Settings &settings)
{
    const auto present = [&](const char *of) { return job_variable(spank, of); };
    view::Variables all =
        view::compiler_variables(gpus, view::toolkit_dir(settings.interposer), present);
    const std::string said = present(kGpusOnNode);
    if (said.empty() || said == present("RGPU_GPUS"))
        all.emplace_back(kGpusOnNode, std::to_string(gpus.size()));
    for (auto &variable : view::gpu_variables(gpus)) all.push_back(std::move(variable));
    // Tasks on other nodes have GPUs of their own.
    uint32_t tasks = 0;
    const bool others = spank_get_item(spank, S_JOB_TOTAL_TASK_COUNT, &tasks) == ESPANK_SUCCESS &&
                        tasks > 1;
    const std::string preload = present("LD_PRELOAD"),
                      with_nccl = view::nccl_preload(preload, gpus, others, present("RGPU_NCCL"),
                                                     settings.interposer);
    if (with_nccl != preload) all.emplace_back("LD_PRELOAD", with_nccl);
    return all;
}

}  // namespace

int remote_post_opt(spank_t spank, int count, char **arguments)
{
    return with_job(spank, count, arguments, [&](const Settings &settings, uint32_t job) -> int {
        if (step_id(spank) == SLURM_BATCH_SCRIPT &&
            !job_variable(spank, slurm::kNodesMark).empty()) {
            is_our_script = true;
            spank_unsetenv(spank, slurm::kNodesMark);
            await_prolog(slurm::lease_path(settings.rundir, node_name(spank), std::to_string(job)));
        }
        fetch_if_missing(spank, settings, job);
        std::string lease = find_lease(spank, settings, job);
        if (!lease.empty()) start_watch(settings, own_name(spank, job), lease);
        if (lease.empty() || step_options().per_step == 0 || !is_srun_step(spank))
            return ESPANK_SUCCESS;
        step_gpus = reserve_gpus(lease, step_options().per_step);
        return ESPANK_SUCCESS;
    });
}

int remote_user_init(spank_t spank, int count, char **arguments)
{
    return with_job(spank, count, arguments, [&](const Settings &settings, uint32_t job) -> int {
        std::string lease = find_lease(spank, settings, job);
        if (lease.empty()) return ESPANK_SUCCESS;
        if (int rc = set(spank, "RGPU_LEASE", lease); rc != ESPANK_SUCCESS) return rc;
        const std::string path = job_variable(spank, "PATH");
        const std::string with_ours =
            view::search_path(path, view::programs_dir(settings.interposer));
        if (with_ours != path)
            if (int rc = set(spank, "PATH", with_ours); rc != ESPANK_SUCCESS) return rc;
        if (const auto gpus = view::read_gpus(lease))
            for (const auto &[name, value] : variables_for(spank, *gpus, settings))
                if (int rc = set(spank, name.c_str(), value); rc != ESPANK_SUCCESS) return rc;
        return set(spank, "LD_LIBRARY_PATH",
                   library_path(settings, job_variable(spank, "LD_LIBRARY_PATH")));
    });
}

int remote_task_privileged(spank_t spank, int count, char **arguments)
{
    return with_job(spank, count, arguments, [&](const Settings &settings, uint32_t job) -> int {
        // What makes a container needs a /proc without anything mounted in it; rgpu container
        // shows the devices in there.
        if (settings.devices == "no" || step_options().no_devices ||
            !job_variable(spank, "SLURM_CONTAINER").empty())
            return ESPANK_SUCCESS;
        const std::string lease = find_lease(spank, settings, job);
        if (lease.empty()) return ESPANK_SUCCESS;
        if (auto shown = show_devices(lease); !shown)
            slurm_error("rgpu: %s on %s: %s; devices=no in plugstack.conf leaves them out without "
                        "this line",
                        view::kNotShown, node_name(spank).c_str(), shown.error().text.c_str());
        return ESPANK_SUCCESS;
    });
}

int remote_task_init(spank_t spank, int count, char **arguments)
{
    return with_job(spank, count, arguments, [&](const Settings &settings, uint32_t job) -> int {
        std::string lease = find_lease(spank, settings, job);
        int task = 0;
        if (lease.empty()) {
            if (std::string why = prolog_error(spank, settings, job); !why.empty())
                refuse_task("this job's GPUs cannot be used on " + node_name(spank) + ": " + why);
            return ESPANK_SUCCESS;
        }
        if (spank_get_item(spank, S_TASK_ID, &task) != ESPANK_SUCCESS) return ESPANK_SUCCESS;
        // Slurm 22.05 makes a container's environment before plugins can add to it. What then runs
        // the container (rgpu container, by oci.conf) has this process's.
        setenv("RGPU_LEASE", lease.c_str(), 1);
        if (is_of_local_gpus(spank)) spank_unsetenv(spank, "CUDA_VISIBLE_DEVICES");
        mend_devices(spank, lease);
        advise(spank, settings, task);
        if (!is_srun_step(spank)) return ESPANK_SUCCESS;
        auto gpus = visible(lease, static_cast<unsigned>(task));
        if (!gpus) refuse_task(gpus.error().text);
        if (!*gpus) return ESPANK_SUCCESS;
        std::string list;
        for (unsigned gpu : **gpus) list += (list.empty() ? "" : ",") + std::to_string(gpu);
        setenv("CUDA_VISIBLE_DEVICES", list.c_str(), 1);
        return set(spank, "CUDA_VISIBLE_DEVICES", list);
    });
}

int remote_exit()
{
    end_watch();
    return ESPANK_SUCCESS;
}

}  // namespace rgpu::plugin
