// SPDX-License-Identifier: Apache-2.0
#include "slurm/jobs/missing.h"

#include <criterion/criterion.h>

using namespace rgpu;
using namespace rgpu::slurm;

static const char *kShown = "LicenseName=matlab Total=10 Used=3 Free=7 Reserved=0 Remote=no\n"
                            "LicenseName=rgpu Total=400 Used=150 Free=250 Reserved=50 Remote=no\n";

// A server of two GPUs, nobody on them.
static pool::Told<pool::Inventory> server(const char *name)
{
    pool::Inventory inventory;
    inventory.name = name;
    for (int i = 0; i < 2; ++i) {
        pool::GpuState gpu;
        gpu.index = i;
        gpu.uuid = "GPU-" + std::string(name) + "-" + std::to_string(i);
        inventory.gpus.push_back(gpu);
    }
    return {name, std::move(inventory)};
}

static void lease(pool::Told<pool::Inventory> &server, int gpu, int share, const char *job)
{
    pool::GpuState &of = server.answer->gpus[static_cast<size_t>(gpu)];
    pool::Lease lease;
    lease.owner.job = job;
    lease.gpus.push_back({gpu, of.uuid, "", share, 0, 100});
    of.free_share -= share;
    server.answer->leases.push_back(lease);
}

static pool::Told<pool::Inventory> silent_server(const char *name)
{
    return {name, error(ErrorKind::disconnected, "no answer")};
}

Test(missing, reads_what_scontrol_shows)
{
    auto licences = parse_licences(kShown);
    cr_assert(licences);
    cr_assert_eq(licences->total, 400ul);
    cr_assert_eq(licences->used, 150ul);
    cr_assert_not(parse_licences("LicenseName=matlab Total=10 Used=3\n"));
    cr_assert_not(parse_licences("No licenses configured in Slurm.\n"));
    const char *reservations =
        "ReservationName=other StartTime=x Licenses=rgpu:7 State=ACTIVE\n"
        "ReservationName=rgpu_missing StartTime=x Licenses=matlab:1,rgpu:200 State=ACTIVE\n";
    cr_assert_eq(parse_reserved(reservations, "rgpu_missing")->sum, 200ul);
    cr_assert_eq(parse_reserved(reservations, "other")->sum, 7ul);
    cr_assert_not(parse_reserved(reservations, "missing"));
    cr_assert_not(parse_reserved("No reservations in the system\n", "rgpu_missing"));
}

Test(missing, a_whole_pool_misses_nothing)
{
    pool::Inventories pool = {server("a"), server("b")};
    cr_assert_eq(missing_licences(pool, nullptr, {400, 0}), 0ul);
    lease(pool[0], 0, 100, "17");
    lease(pool[0], 1, 30, "18");
    cr_assert_eq(missing_licences(pool, nullptr, {400, 130}), 0ul, "what jobs hold is not missing");
    cr_assert_eq(missing_licences(pool, nullptr, {400, 230}), 0ul,
                 "nor what a job is about to lease");
}

Test(missing, of_drained_gpus_what_nobody_holds_is_missing)
{
    pool::Inventories pool = {server("a"), server("b")};
    lease(pool[0], 0, 30, "17");
    pool[0].answer->gpus[0].drained = "new fans";
    cr_assert_eq(missing_licences(pool, nullptr, {400, 30}), 70ul);
    pool[0].answer->gpus[1].drained = "new fans";
    cr_assert_eq(missing_licences(pool, nullptr, {400, 30}), 170ul);
}

Test(missing, what_is_leased_outside_slurm_is_missing)
{
    pool::Inventories pool = {server("a")};
    lease(pool[0], 0, 40, "");
    lease(pool[0], 0, 60, "17");
    cr_assert_eq(missing_licences(pool, nullptr, {200, 60}), 40ul);
}

Test(missing, what_a_job_left_behind_is_missing)
{
    pool::Inventories pool = {server("a")};
    lease(pool[0], 0, 100, "17");
    lease(pool[0], 1, 30, "18");
    std::set<std::string> active = {"18"};
    cr_assert_eq(missing_licences(pool, nullptr, {200, 30}, &active), 100ul);
    active.insert("17");
    cr_assert_eq(missing_licences(pool, nullptr, {200, 30}, &active), 0ul,
                 "17 has given its licences back, and its epilog runs");
}

Test(missing, a_share_that_begins_at_nothing_costs_one)
{
    pool::Inventories pool = {server("a")};
    lease(pool[0], 0, 0, "17");
    cr_assert_eq(missing_licences(pool, nullptr, {200, 1}), 0ul);
    pool[0].answer->gpus[0].drained = "new fans";
    cr_assert_eq(missing_licences(pool, nullptr, {200, 1}), 99ul);
}

Test(missing, a_silent_server_is_missing_but_for_what_its_jobs_hold)
{
    pool::Inventories pool = {server("a"), silent_server("b")};
    slurm::Snapshot before;
    before.servers = {{"a", 2, 0}, {"b", 2, 0}};
    cr_assert_eq(missing_licences(pool, &before, {400, 0}), 200ul);
    lease(pool[0], 0, 100, "17");
    cr_assert_eq(missing_licences(pool, &before, {400, 100}), 200ul);
    cr_assert_eq(missing_licences(pool, &before, {400, 250}), 50ul,
                 "150 of it are those of jobs there");
    cr_assert_eq(missing_licences(pool, nullptr, {400, 250}), 200ul,
                 "without a snapshot nothing is known of it");
}

Test(missing, a_server_that_is_configured_no_more_is_missing)
{
    pool::Inventories pool = {server("a")};
    cr_assert_eq(missing_licences(pool, nullptr, {400, 0}), 200ul);
    cr_assert_eq(missing_licences(pool, nullptr, {100, 0}), 0ul, "Slurm sells less than there is");
}

Test(missing, of_a_type_what_jobs_hold_without_its_licences_is_missing)
{
    pool::Inventories pool = {server("a"), server("b")};
    for (auto &gpu : pool[0].answer->gpus) gpu.name = "NVIDIA A100";
    for (auto &gpu : pool[1].answer->gpus) gpu.name = "NVIDIA H100";
    cr_assert_eq(missing_licences(pool, nullptr, {200, 0}, nullptr, "a100"), 0ul);
    lease(pool[0], 0, 100, "17");
    std::set<std::string> typed = {"17"};
    cr_assert_eq(missing_licences(pool, nullptr, {200, 100}, &typed, "a100"), 0ul);
    typed.clear();
    cr_assert_eq(missing_licences(pool, nullptr, {200, 0}, &typed, "a100"), 100ul,
                 "17 got its GPU, and its licences do not say so yet");
    cr_assert_eq(missing_licences(pool, nullptr, {200, 0}, &typed, "h100"), 0ul);
    const char *shown = "LicenseName=rgpu Total=400 Used=1 Free=1 Reserved=0 Remote=no\n"
                        "LicenseName=rgpu_a100 Total=200 Used=30 Free=1 Reserved=0 Remote=no\n";
    auto types = parse_type_licences(shown);
    cr_assert_eq(types.size(), 1ul);
    cr_assert_eq(types["a100"].total, 200ul);
    cr_assert_eq(types["a100"].used, 30ul);
}
