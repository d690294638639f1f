// SPDX-License-Identifier: Apache-2.0
// rgpu slurm sync: tells Slurm how large the pool is: the snapshot that job_submit reads, and a
// reservation of what is missing now.
//
// A server that does not answer keeps what the snapshot said of it: the file tells what could ever
// fit, and a server that is away comes back. Meanwhile its licences are in the reservation, so that
// jobs pend that could only wait in their prolog. What becomes of jobs
// that run with its GPUs is in reconcile.cc.
#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/parts/command.h"
#include "cli/slurm/follow_sizes.h"
#include "cli/slurm/idle_steps.h"
#include "cli/slurm/reconcile.h"
#include "cli/slurm/rights.h"
#include "cli/slurm/tool.h"
#include "slurm/jobs/missing.h"
#include "slurm/terms/nodes.h"
#include "util/fd.h"

namespace rgpu::cli {
namespace {

slurm::PoolModel model_of(const pool::Inventory &inventory, const pool::GpuState &gpu)
{
    slurm::PoolModel out{1, gpu.memory, 0, inventory.driver_version, gpu.name};
    if (auto cc = slurm::parse_compute_capability(gpu.compute_capability))
        out.compute_capability = *cc;
    // A line of the file.
    std::replace_if(
        out.name.begin(), out.name.end(), [](unsigned char c) { return c < ' '; }, ' ');
    return out;
}

slurm::PoolServer summary(const pool::Inventory &inventory, const std::string &name)
{
    slurm::PoolServer out{name, static_cast<unsigned>(inventory.gpus.size()), 0};
    out.driver = inventory.driver_release;
    for (const pool::GpuState &gpu : inventory.gpus) {
        out.memory = std::max(out.memory, gpu.memory);
        out.uuids.push_back(gpu.uuid);
        slurm::PoolModel one = model_of(inventory, gpu);
        auto same =
            std::find_if(out.models.begin(), out.models.end(), [&](const slurm::PoolModel &m) {
                return m.name == one.name && m.memory == one.memory &&
                       m.compute_capability == one.compute_capability;
            });
        if (same == out.models.end())
            out.models.push_back(std::move(one));
        else
            ++same->gpus;
    }
    return out;
}

const slurm::PoolServer *find(const slurm::Snapshot &pool, const std::string &name)
{
    for (const slurm::PoolServer &server : pool.servers)
        if (server.name == name) return &server;
    return nullptr;
}

// One sync at a time: it reads what Slurm has, and changes it.
Fd only_one(const std::string &snapshot)
{
    Fd lock(open((snapshot + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (lock) (void)flock(lock.get(), LOCK_EX);
    return lock;
}

// Makes the reservation as large as `wanted`; `now` is how large it is, nothing where there is
// none.
Result<void> resize(const std::string &name, const std::optional<slurm::OwnLicences> &now,
                    const slurm::OwnLicences &wanted)
{
    std::string licences = "licenses=" + to_text(wanted);
    std::vector<std::string> command;
    const slurm::OwnLicences none;
    if (now.value_or(none) == wanted) return {};
    if (wanted == none)
        command = {"scontrol", "delete", "reservation=" + name};
    else if (now)
        command = {"scontrol", "update", "reservation=" + name, licences};
    else
        command = {"scontrol",
                   "create",
                   "reservation",
                   "reservationname=" + name,
                   licences,
                   "starttime=now",
                   "duration=UNLIMITED",
                   "users=root",
                   "flags=LICENSE_ONLY"};
    Result<std::string> done = run_tool(command);
    return done ? Result<void>() : std::move(done).error().in("reservation " + name);
}

class Sync : public Command {
public:
    void options(CLI::App &app) override
    {
        app.add_flag("-q,--quiet", quiet_, "Say nothing when all servers answered");
        app.add_flag("--snapshot-only", snapshot_only_,
                     "Leave the reservation, jobs and leases as they are, and ask Slurm nothing");
        app.add_flag("--json", json_, "Print JSON");
    }

    int run(Context &context) override
    {
        auto config = context.config();
        if (!config) return fail(config.error());
        if (auto rights = sees_all_leases((*config)->auth); !rights) return fail(rights.error());
        auto client = context.pool();
        if (!client) return fail(client.error());
        const SlurmConfig &slurm = (*config)->slurm;
        std::error_code ignored;  // write_snapshot tells it better
        std::filesystem::create_directories(std::filesystem::path(slurm.snapshot).parent_path(),
                                            ignored);
        Fd lock = only_one(slurm.snapshot);
        auto before = slurm::read_snapshot(slurm.snapshot);
        pool::Inventories pool = client->inventory();
        std::vector<slurm::PoolServer> servers = summaries(pool, before ? &*before : nullptr);
        const slurm::SlurmFacts facts{slurm.gpus_mean_rgpu,
                                      no_node_gpus(before && before->facts.no_node_gpus)};
        auto written = slurm::write_snapshot(slurm.snapshot, servers, facts);
        if (!written) return fail(written.error());
        unsigned gpus = 0;
        for (const slurm::PoolServer &server : servers) gpus += server.gpus;
        said_ = {{"snapshot", slurm.snapshot},
                 {"servers", nlohmann::json::array()},
                 {"silent", nlohmann::json::array()},
                 {"gpus", gpus},
                 {"licences_wanted", gpus * kWholeGpu}};
        for (const auto &told : pool) said_[told.answer ? "servers" : "silent"] += told.server;
        if (!silent())
            printf("%s: %zu server%s, %u GPU%s; slurm.conf needs Licenses=rgpu:%u\n",
                   slurm.snapshot.c_str(), servers.size(), servers.size() == 1 ? "" : "s", gpus,
                   gpus == 1 ? "" : "s", gpus * kWholeGpu);
        if (!snapshot_only_)
            if (auto done = tell_slurm(**config, *client, pool, before ? &*before : nullptr, gpus);
                !done)
                return fail(done.error());
        if (const int printed = json_ ? print(text_of_said()) : kOk; printed != kOk) return printed;
        return unanswered(pool) ? kNoServer : kOk;
    }

private:
    // JSON is alone on stdout.
    bool silent() const { return quiet_ || json_; }
    std::string text_of_said() const
    {
        return said_.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    }

    // Where Slurm cannot be asked, what was known stays.
    bool no_node_gpus(bool known) const
    {
        auto shown = snapshot_only_ ? Result<std::string>(std::string())
                                    : run_tool({"sinfo", "-h", "-a", "-o", "%G"});
        return shown && !shown->empty() ? !slurm::names_node_gpus(*shown) : known;
    }

    std::vector<slurm::PoolServer> summaries(const pool::Inventories &pool,
                                             const slurm::Snapshot *before)
    {
        std::vector<slurm::PoolServer> servers;
        for (const auto &told : pool) {
            if (told.answer) {
                servers.push_back(summary(*told.answer, told.server));
                continue;
            }
            (void)fail(told.answer.error());
            if (const slurm::PoolServer *known = before ? find(*before, told.server) : nullptr)
                servers.push_back(*known);
        }
        return servers;
    }

    // The servers were asked before: what has a lease there then has had its job at that time.
    Result<void> tell_slurm(const Config &config, pool::Client &client, pool::Inventories pool,
                            const slurm::Snapshot *before, unsigned gpus)
    {
        const SlurmConfig &slurm = config.slurm;
        auto runs = look_at_runs();
        // What they held can be sold at once.
        if (runs && end_stale_leases(client, pool, *runs, silent()) > 0) {
            pool = client.inventory();
            runs = look_at_runs();
        }
        if (!runs)
            return std::move(runs).error().in(
                "the snapshot is written, the reservation is not kept");
        auto followed = follow_sizes(pool, *runs, silent());
        if (!followed) return std::move(followed).error();
        said_["resized"] = *followed;
        // What they have paid now.
        if (*followed) runs = look_at_runs();
        if (!runs) return std::move(runs).error();
        if (!slurm.reservation.empty())
            if (auto kept = keep_reservation(slurm.reservation, pool, before, gpus, *runs); !kept)
                return kept;
        if (auto done = reconcile(slurm, client, pool, *runs, silent()); !done) return done;
        auto idle = act_on_idle(config.pool, slurm.snapshot + ".idle", client, *runs, silent());
        if (!idle) return std::move(idle).error();
        said_["idle_warned"] = idle->warned, said_["idle_ended"] = idle->ended;
        return {};
    }

    Result<void> keep_reservation(const std::string &name, const pool::Inventories &pool,
                                  const slurm::Snapshot *before, unsigned gpus,
                                  const std::vector<slurm::JobRun> &runs)
    {
        auto shown = run_tool({"scontrol", "-o", "show", "lic"});
        if (!shown)
            return std::move(shown).error().in(
                "the snapshot is written, the reservation is not kept");
        auto licences = slurm::parse_licences(*shown);
        if (!licences) {
            if (!silent())
                printf("Slurm sells no licences of rgpu yet: put that line into slurm.conf\n");
            return {};
        }
        if (licences->total < gpus * static_cast<unsigned long>(kWholeGpu))
            fprintf(stderr,
                    "rgpu: the pool has %u GPU%s, and Slurm sells less (rgpu:%lu); set "
                    "Licenses=rgpu:%u in slurm.conf\n",
                    gpus, gpus == 1 ? "" : "s", licences->total, gpus * kWholeGpu);
        const slurm::OwnLicences missing =
            missing_of(pool, before, *licences, slurm::parse_type_licences(*shown), runs);
        auto reservations = run_tool({"scontrol", "-o", "show", "reservation"});
        if (!reservations)
            return std::move(reservations)
                .error()
                .in("the snapshot is written, the reservation is not kept");
        if (auto done = resize(name, slurm::parse_reserved(*reservations, name), missing); !done)
            return done;
        said_["licences_total"] = licences->total;
        said_["licences_missing"] = missing.sum;
        for (const auto &[type, count] : missing.types)
            said_["licences_missing_of_type"][type] = count;
        if (!silent())
            printf("%lu of %lu licences can be sold now%s\n", licences->total - missing.sum,
                   licences->total,
                   missing.sum ? (", reservation " + name + " holds the rest").c_str() : "");
        return {};
    }

    // Of the sum, and of each type that Slurm sells.
    static slurm::OwnLicences missing_of(const pool::Inventories &pool,
                                         const slurm::Snapshot *before, const slurm::Licences &sum,
                                         const std::map<std::string, slurm::Licences> &types,
                                         const std::vector<slurm::JobRun> &runs)
    {
        auto active_of = [&](const std::string &type) {
            std::set<std::string> active;
            for (const slurm::JobRun &run : runs)
                if (run.state != "PENDING" && (type.empty() || run.types.contains(type)))
                    active.insert(run.id);
            return active;
        };
        std::set<std::string> active = active_of("");
        slurm::OwnLicences out{slurm::missing_licences(pool, before, sum, &active), {}};
        for (const auto &[type, licences] : types) {
            active = active_of(type);
            if (auto missing = slurm::missing_licences(pool, before, licences, &active, type))
                out.types[type] = missing;
        }
        return out;
    }

    bool quiet_ = false, snapshot_only_ = false, json_ = false;
    nlohmann::json said_;
};

const Registered<Sync> sync_command{
    "slurm", "sync", "tell Slurm the size of the pool, and reserve what is missing of it"};

}  // namespace
}  // namespace rgpu::cli
