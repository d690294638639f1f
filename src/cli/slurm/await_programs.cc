// SPDX-License-Identifier: Apache-2.0
#include "cli/slurm/await_programs.h"

#include <cstdlib>
#include <string_view>
#include <thread>

#include "cli/slurm/tool.h"
#include "util/clock.h"

namespace rgpu::cli {
namespace {

constexpr Milliseconds kFirstLook{20}, kLastLook{250};
constexpr Milliseconds kUnasked{
    1000};  // most programs have ended by then, and slurmctld need not be asked
constexpr Milliseconds kKillWait{30'000}, kMargin{5'000};

bool connected(pool::Client &client, const std::string &job)
{
    pool::LeaseFilter filter;
    filter.job = job;
    for (const auto &told : client.leases(filter))
        if (told.answer)
            for (const pool::Lease &lease : *told.answer)
                if (lease.workers > 0) return true;
    return false;
}

// Slurm's default where it cannot be asked.
Milliseconds kill_wait()
{
    auto shown = run_tool({"scontrol", "show", "config"});
    size_t at = shown ? shown->find("\nKillWait ") : std::string::npos;
    size_t equals = at == std::string::npos ? at : shown->find('=', at);
    return equals == std::string::npos
               ? kKillWait
               : Milliseconds(1000 * strtol(shown->c_str() + equals + 1, nullptr, 10));
}

}  // namespace

void await_programs(pool::Client &client, const slurm::Job &job)
{
    const Time start = now();
    Milliseconds limit{0}, pause = kFirstLook;
    while (connected(client, job.id)) {
        const auto waited = Milliseconds(now() - start);
        if (limit.count() == 0 && waited > kUnasked) limit = kill_wait() + kMargin;
        if (limit.count() != 0 && waited > limit) return;
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, kLastLook);
    }
}

}  // namespace rgpu::cli
