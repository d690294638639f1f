// SPDX-License-Identifier: Apache-2.0
// Where Slurm and the pool disagree.
#include <criterion/criterion.h>

#include "slurm/check/compare.h"

using namespace rgpu;
using namespace rgpu::slurm;

static pool::Lease lease(const char *job, const char *node, int gpus, int share = 100)
{
    pool::Lease out;
    out.id = std::string(job) + node;
    out.owner.user = "ann";
    out.owner.job = job;
    out.owner.node = node;
    for (int i = 0; i < gpus; ++i)
        out.gpus.push_back({i, "GPU-" + std::to_string(i), "", share, 0, share});
    return out;
}

static pool::Inventories pool_with(std::vector<pool::Lease> leases)
{
    pool::Inventory server;
    server.name = "gpu1";
    for (int i = 0; i < 4; ++i) {
        pool::GpuState gpu;
        gpu.index = i;
        gpu.uuid = "GPU-" + std::to_string(i);
        for (const pool::Lease &l : leases)
            for (const pool::Portion &p : l.gpus)
                if (p.uuid == gpu.uuid) gpu.free_share -= p.share;
        server.gpus.push_back(gpu);
    }
    server.leases = std::move(leases);
    pool::Inventories out;
    out.push_back({"gpu1", server});
    return out;
}

static std::vector<ActiveJob> running(const char *id, unsigned long licences,
                                      const char *nodes = "cn1")
{
    return {{id, id, "RUNNING", nodes, licences}};
}

Test(compare, reads_squeue)
{
    auto jobs =
        parse_jobs("17|14_3|RUNNING|cn[1-2]|matlab:1,rgpu:400\n18|18|CONFIGURING||(null)\n\n");
    cr_assert(jobs.size() == 2);
    cr_expect(jobs[0].id == "17" && jobs[0].name == "14_3" && jobs[0].state == "RUNNING" &&
              jobs[0].nodes == "cn[1-2]" && jobs[0].licences == 400);
    cr_expect(jobs[1].licences == 0);
}

Test(compare, what_agrees_is_silent)
{
    cr_expect(compare_jobs(running("17", 200), pool_with({lease("17", "cn1", 2)})).empty());
    cr_expect(compare_jobs(running("17", 100, "cn[1-2]"),
                           pool_with({lease("17", "cn1", 1, 50), lease("17", "cn2", 1, 50)}))
                  .empty());
    cr_expect(compare_jobs({}, pool_with({})).empty());
    cr_expect(compare_jobs({{"17", "17", "CONFIGURING", "cn1", 200}}, pool_with({})).empty(),
              "its prolog runs");
    cr_expect(
        compare_jobs({{"17", "17", "COMPLETING", "cn1", 200}}, pool_with({lease("17", "cn1", 2)}))
            .empty(),
        "its epilog runs");
    Licences licences{400, 200};
    auto pool = pool_with({lease("17", "cn1", 2)});
    slurm::Snapshot snapshot{{{"gpu1", 4, 0}}, 1, 4};
    cr_expect(
        compare_licences(licences, running("17", 200), pool, &snapshot, "rgpu_missing", 0).empty());
    cr_expect(compare_snapshot(&snapshot, pool).empty());
}

static void one(const std::vector<Disagreement> &found, const char *check, const char *of)
{
    cr_assert(found.size() == 1, "%zu disagreements", found.size());
    cr_expect(found[0].check == check && found[0].of == of, "%s: %s: %s", found[0].check.c_str(),
              found[0].of.c_str(), found[0].found.c_str());
    cr_expect(!found[0].cure.empty());
}

Test(compare, finds_each_disagreement_of_jobs_and_leases)
{
    one(compare_jobs(running("17", 200), pool_with({})), "job without lease", "job 17");
    one(compare_jobs({}, pool_with({lease("17", "cn1", 2)})), "lease without job", "job 17");
    one(compare_jobs(running("17", 200), pool_with({lease("17", "cn1", 1)})), "licences of a job",
        "job 17");
    one(compare_jobs(running("17", 200), pool_with({lease("17", "cn2", 2)})), "lease without job",
        "job 17");
    pool::Inventories away = pool_with({});
    away[0].answer = Error{ErrorKind::disconnected, "away"};
    cr_expect(compare_jobs(running("17", 200), away).empty(), "nothing is known of it");
}

Test(compare, finds_each_disagreement_of_licences)
{
    auto pool = pool_with({});
    one(compare_licences({400, 100}, {}, pool, nullptr, "", 0), "licence count", "licence rgpu");
    one(compare_licences({300, 0}, {}, pool, nullptr, "", 0), "licence count", "licence rgpu");
    one(compare_licences({400, 0}, {}, pool, nullptr, "rgpu_missing", 100), "reservation",
        "reservation rgpu_missing");
    one(compare_snapshot(nullptr, pool), "snapshot", "the snapshot");
    slurm::Snapshot small{{{"gpu1", 2, 0}}, 1, 2};
    one(compare_snapshot(&small, pool), "snapshot", "server gpu1");
}

Test(compare, finds_what_is_missing_in_slurm_conf)
{
    const std::string right =
        "GresTypes               = gpu,rgpu\nJobSubmitPlugins        = lua,rgpu\nPrologSlurmctld   "
        "      = /x\n"
        "EpilogSlurmctld         = /x\nProlog                  = /x\nEpilog                  = /x\n"
        "PrologFlags             = Alloc,Contain\n";
    cr_expect(compare_config(right).empty());
    cr_expect(compare_config("GresTypes = rgpu\nJobSubmitPlugins = rgpu\nPrologSlurmctld[0] = "
                             "/x\nPrologSlurmctld[1] = /y\nEpilogSlurmctld[0] = /x\n"
                             "Prolog[0] = /x\nEpilog[0] = /x\nPrologFlags = Alloc\n")
                  .empty(),
              "as Slurm 24.11 writes it");
    cr_expect(compare_config(std::string(right) + "SelectType = select/cons_tres\n").empty());
    one(compare_config(std::string(right) + "SelectType              = select/linear\n"),
        "slurm.conf", "SelectType");
    for (const char *line : {"GresTypes", "JobSubmitPlugins", "PrologSlurmctld", "EpilogSlurmctld",
                             "Prolog ", "Epilog ", "PrologFlags"}) {
        std::string without = right;
        size_t at = line == std::string("Prolog ") || line == std::string("Epilog ")
                        ? without.find(std::string("\n") + line) + 1
                        : without.find(line);
        without.erase(at, without.find('\n', at) + 1 - at);
        auto found = compare_config(without);
        cr_expect(found.size() == 1, "without %s: %zu", line, found.size());
    }
}

Test(compare, finds_nodes_that_differ)
{
    cr_expect(compare_nodes("NodeName=cn1 Gres=rgpu:1K CPUs=2\nNodeName=cn2 Gres=gpu:1,rgpu:1K "
                            "CPUs=2\nNodeName=x Gres=(null)\n")
                  .empty());
    one(compare_nodes("NodeName=cn1 Gres=rgpu:1K CPUs=2\nNodeName=cn2 Gres=rgpu:8 "
                      "CPUs=2\nNodeName=cn3 Gres=rgpu:1K x\n"),
        "node", "node cn2");
    one(compare_nodes("NodeName=cn1 Gres=rgpu:1K\nNodeName=cn2 Gres=rgpu:1K Reason=gres/rgpu count "
                      "reported lower than configured (4 < 1024) "
                      "[slurm@2026-01-01]\n"),
        "node", "node cn2");
}
