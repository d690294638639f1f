// SPDX-License-Identifier: Apache-2.0
// What a job that waits could have at once.
#include "slurm/jobs/alternatives.h"

#include <criterion/criterion.h>

using namespace rgpu;
using namespace rgpu::slurm;

namespace {

pool::GpuState gpu(const char *name, int free)
{
    pool::GpuState g;
    g.uuid = name + std::to_string(free), g.name = name, g.memory = 100;
    g.free_share = free, g.free_memory = static_cast<uint64_t>(free);
    return g;
}

pool::Told<pool::Inventory> server(const char *name, std::vector<pool::GpuState> gpus)
{
    pool::Inventory told;
    told.name = name, told.gpus = std::move(gpus);
    return {name, std::move(told)};
}

PoolJob wants(unsigned gpus, const char *type = "", unsigned nodes = 1)
{
    PoolJob job;
    job.state = "PENDING", job.gpus = gpus, job.nodes = nodes, job.type = type;
    job.licences.sum = 100UL * gpus * nodes;
    return job;
}

// "OPTIONS; OPTIONS".
std::string of(const PoolJob &job, const pool::Inventories &pool)
{
    std::string out;
    for (const Alternative &a : alternatives(job, pool))
        out += (out.empty() ? "" : "; ") + a.options;
    return out;
}

void expect(const std::string &got, const char *wanted) { cr_expect_str_eq(got.c_str(), wanted); }

}  // namespace

Test(alternatives, of_a_type_that_is_taken)
{
    pool::Inventories pool;
    pool.push_back(server("a", {gpu("NVIDIA H100", 50), gpu("NVIDIA H100", 60)}));
    pool.push_back(server("b", {gpu("NVIDIA A100", 100), gpu("NVIDIA A100", 100)}));
    cr_expect_not(fits_now(wants(2, "h100"), pool));
    expect(of(wants(2, "h100"), pool), "--gres=rgpu:nvidia_a100:2; --rgpu-share=50");
    cr_expect(fits_now(wants(2), pool));
}

Test(alternatives, of_more_than_one_server_has)
{
    pool::Inventories pool;
    pool.push_back(server("a", {gpu("G", 100)}));
    pool.push_back(server("b", {gpu("G", 100)}));
    expect(of(wants(2), pool), "--rgpu-span; --gres=rgpu:1");
    cr_expect(fits_now(wants(1, "", 2), pool), "each node has one");
    cr_expect_not(fits_now(wants(1, "", 3), pool));
}

Test(alternatives, none_where_nothing_is_free)
{
    pool::Inventories pool;
    pool.push_back(server("a", {gpu("G", 0)}));
    expect(of(wants(1), pool), "");
    expect(of(wants(1), {}), "");
}
