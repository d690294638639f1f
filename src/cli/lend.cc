// SPDX-License-Identifier: Apache-2.0
// rgpu lend: a host's own GPUs in the pool, for as long as this runs.
//
// In a Slurm job that others may preempt it makes GPUs the pool's that Slurm has no other job for:
// whoever wants them as gres/gpu preempts it, and has them when it has ended.
#include <cstdlib>

#include <CLI/CLI.hpp>

#include "cli/parts/child.h"
#include "cli/parts/command.h"
#include "cli/parts/gpu_options.h"
#include "cli/parts/holder.h"
#include "pool/messages/request_json.h"
#include "util/clock.h"
#include "util/next_token.h"

namespace rgpu::cli {
namespace {

constexpr const char *kFooter =
    "Lends them until it gets SIGTERM, SIGINT or SIGHUP; then nothing more of them is offered, "
    "programs on them have --grace, and it\n"
    "ends when they are free. rgpud notices when it is killed. The server needs lend = \"jobs\" "
    "(rgpu.conf(5)); only administrators can.\n"
    "Meant to be run in a Slurm job that holds the GPUs as gres/gpu and makes way for others: "
    "doc/admin.md.\n"
    "\n"
    "Exit status: 0 after a signal, when the GPUs are free; 1 (an error), 2 (wrong usage), 123 "
    "(the server does not answer).";

constexpr Milliseconds kTend{1000};    // between two looks whether the lend is still held
constexpr Milliseconds kLook{100};     // ... whether the GPUs are free
constexpr Milliseconds kLate{20'000};  // for workers that end, behind the grace

std::string variable(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

// Those that Slurm gave the step, or the job on this node: SLURM_..._GPUS counts all of the host's,
// whatever the job can see.
std::vector<std::string> gpus_of_job()
{
    for (const char *name : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"})
        if (auto gpus = tokens(variable(name), ","); !gpus.empty()) return gpus;
    return {};
}

std::string this_node()
{
    if (std::string name = variable("SLURMD_NODENAME"); !name.empty()) return name;
    std::string host = own_process().host;
    return host.substr(0, host.find('.'));
}

Result<std::string> server_here(const Config &config)
{
    const std::string node = this_node();
    for (const ServerEntry &server : config.servers)
        if (server.node == node) return server.name;
    return error(ErrorKind::invalid,
                 "no [[server]] of %s is on node %s: give the one that is node = \"%s\" there, or "
                 "name it with --server",
                 config.path.c_str(), node.c_str(), node.c_str());
}

// The lend, made again when its connection is lost: rgpud was restarted, or took us for dead.
class Kept {
public:
    Kept(pool::Client &client, std::string server, pool::Lend lend)
        : client_(client), server_(std::move(server)), lend_(std::move(lend))
    {}

    Result<void> begin()
    {
        Result<pool::Grant> grant = client_.lend(server_, lend_);
        if (!grant) return std::move(grant).error();
        holder_.reset();  // it looks into the grant
        grant_ = std::move(*grant);
        holder_.emplace(*grant_);
        return {};
    }

    void tend()
    {
        if (holder_->is_there()) return;
        Result<void> again = begin();
        if (!again && !told_)
            fprintf(stderr, "rgpu: the GPUs are not lent any more, and are tried again: %s\n",
                    again.error().text.c_str());
        else if (again && told_)
            fprintf(stderr, "rgpu: they are lent again\n");
        told_ = !again;
    }

    // Nothing more is offered; returns when the GPUs are free. A second signal ends the waiting.
    Result<void> end()
    {
        Result<void> withdrawn = client_.withdraw(server_, grant_->lease.id);
        // What rgpud does not know (any more) is not offered either.
        if (!withdrawn && withdrawn.error().kind != ErrorKind::unsupported) return withdrawn;
        for (Time limit = now() + lend_.grace + kLate;;) {
            Result<bool> free = is_free();
            if (free && *free) return {};
            if (now() >= limit)
                return free ? error(ErrorKind::unavailable,
                                    "server %s: programs still use the GPUs", server_.c_str())
                            : free.error();
            if (ending_signal(kLook))
                return error(ErrorKind::unavailable,
                             "server %s: programs may still use the GPUs, at most %s",
                             server_.c_str(), format_duration(lend_.grace).c_str());
        }
    }

    const std::vector<pool::Portion> &gpus() const { return grant_->lease.gpus; }

private:
    Result<bool> is_free()
    {
        Result<pool::Inventory> inventory = client_.inventory_of(server_);
        if (!inventory) return std::move(inventory).error();
        for (const pool::GpuState &gpu : inventory->gpus)
            for (const pool::Portion &lent : gpus())
                if (gpu.uuid == lent.uuid &&
                    (gpu.free_share < kWholeGpu || gpu.free_memory < gpu.memory))
                    return false;
        return true;
    }

    pool::Client &client_;
    std::string server_;
    pool::Lend lend_;
    std::optional<pool::Grant> grant_;
    std::optional<Holder> holder_;
    bool told_ = false;
};

class Lend : public Command {
public:
    void options(CLI::App &app) override
    {
        app.add_option("GPU", gpus_,
                       "Numbers, as Slurm and nvidia-smi count, or UUIDs; those of the Slurm job "
                       "unless given");
        app.add_option(
               "--server", server_,
               "The server whose host this is, by its name in rgpu.conf ([[server]] node says it)")
            ->type_name("NAME");
        app.add_option("-g,--grace", grace_,
                       "How long programs keep the GPUs when they are withdrawn: 10s; 0 ends them "
                       "at once (25s)")
            ->type_name("TIME");
        app.footer(kFooter);
    }

    int run(Context &context) override
    {
        pool::Lend lend;
        lend.gpus = gpus_.empty() ? gpus_of_job() : gpus_;
        lend.grace = defaults::kLendGrace;
        lend.owner = own_process();
        if (lend.owner.job = variable("SLURM_JOB_ID"); !lend.owner.job.empty())
            lend.owner.node = this_node();
        if (lend.gpus.empty())
            return fail(error(ErrorKind::invalid, "which GPUs? Run it in a Slurm job with "
                                                  "--gres=gpu:N, or name them: rgpu lend 0 1"),
                        kUsage);
        if (!grace_.empty()) {
            Result<Milliseconds> grace = parse_duration(grace_);
            if (!grace) return fail(std::move(grace).error().in("--grace"), kUsage);
            if (*grace > pool::kLongestGrace)
                return fail(error(ErrorKind::invalid, "--grace: %s is too long; %s is the most",
                                  grace_.c_str(), format_duration(pool::kLongestGrace).c_str()),
                            kUsage);
            lend.grace = *grace;
        }
        Result<const Config *> config = context.config();
        if (!config) return fail(config.error());
        Result<std::string> server = server_.empty() ? server_here(**config) : server_;
        if (!server) return fail(server.error());
        Result<pool::Client> client = context.pool();
        if (!client) return fail(client.error());
        hold_signals();
        Kept kept(*client, *server, std::move(lend));
        if (Result<void> begun = kept.begin(); !begun)
            return fail(begun.error(),
                        begun.error().kind == ErrorKind::disconnected ? kNoServer : kFailed);
        for (const pool::Portion &gpu : kept.gpus())
            printf("%s: GPU %d (%s, %s) is lent to the pool\n", server->c_str(), gpu.index,
                   gpu.name.c_str(), gpu.uuid.c_str());
        fflush(stdout);
        while (!ending_signal(kTend)) kept.tend();
        printf("%s: withdrawing %zu %s\n", server->c_str(), kept.gpus().size(),
               kept.gpus().size() == 1 ? "GPU" : "GPUs");
        fflush(stdout);
        Result<void> ended = kept.end();
        return ended ? kOk : fail(ended.error());
    }

private:
    std::vector<std::string> gpus_;
    std::string server_, grace_;
};

const Registered<Lend> lend{"", "lend", "Lend a host's own GPUs to the pool, until it ends"};

}  // namespace
}  // namespace rgpu::cli
