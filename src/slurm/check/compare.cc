// SPDX-License-Identifier: Apache-2.0
#include "slurm/check/compare.h"

#include <algorithm>
#include <map>
#include <set>

#include "slurm/conf/hostlist.h"
#include "slurm/conf/plan.h"
#include "slurm/terms/filters.h"
#include "slurm/terms/licences.h"
#include "slurm/terms/setting.h"
#include "util/next_token.h"

namespace rgpu::slurm {
namespace {

std::string number(unsigned long n) { return std::to_string(n); }

struct Held {
    std::string server;
    const pool::Lease *lease;
};

std::map<std::string, std::vector<Held>> leases_by_job(const pool::Inventories &pool)
{
    std::map<std::string, std::vector<Held>> out;
    for (const auto &told : pool)
        if (told.answer)
            for (const pool::Lease &lease : told.answer->leases)
                if (!lease.owner.job.empty()) out[lease.owner.job].push_back({told.server, &lease});
    return out;
}

bool is_settled(const ActiveJob &job) { return job.state == "RUNNING" || job.state == "SUSPENDED"; }

void compare_job(const ActiveJob &job, const std::vector<Held> &held, bool all_answer,
                 std::vector<Disagreement> &out)
{
    unsigned long sum = 0;
    auto nodes = expand_hostlist(job.nodes);
    for (const Held &h : held) {
        sum += paid(*h.lease);
        if (nodes && is_settled(job) &&
            std::find(nodes->begin(), nodes->end(), h.lease->owner.node) == nodes->end())
            out.push_back({"lease without job", "job " + job.id,
                           h.server + " has a lease of it for node " + h.lease->owner.node +
                               ", where it does not run (" + job.nodes + ")",
                           "rgpu release --job " + job.id + " --node " + h.lease->owner.node});
    }
    if (!is_settled(job) || sum == job.licences || (sum < job.licences && !all_answer)) return;
    if (sum == 0)
        out.push_back(
            {"job without lease", "job " + job.id,
             "it runs with licences rgpu:" + number(job.licences) +
                 ", and no server has a lease of it",
             "its GPUs are gone: scontrol requeue " + job.name + ", or scancel " + job.name});
    else
        out.push_back({"licences of a job", "job " + job.id,
                       "it has licences rgpu:" + number(job.licences) + ", and its leases hold " +
                           number(sum) + " hundredths of GPUs",
                       "scontrol requeue " + job.name + ": it starts again with what it pays for"});
}

bool all_answered(const pool::Inventories &pool) { return unanswered(pool) == 0; }

// The value of NAME= in a line of words; reasons have spaces, and go up to the next "[" or the
// line's end.
std::string word_of(std::string_view line, std::string_view name)
{
    std::string key = " " + std::string(name) + "=";
    size_t at = line.starts_with(key.substr(1)) ? 0 : line.find(key);
    if (at == line.npos) return {};
    std::string_view value = line.substr(line.find('=', at) + 1);
    return std::string(value.substr(0, value.find(name == "Reason" ? '[' : ' ')));
}

// The parts of a node's Gres that are rgpu's, in order.
std::string rgpu_of(const std::string &gres)
{
    std::set<std::string> parts;
    std::string_view rest = gres;
    while (!rest.empty()) {
        std::string_view part = next_token(rest, ",");
        if (part.substr(0, part.find(':')) == "rgpu") parts.emplace(part);
    }
    std::string out;
    for (const std::string &part : parts) (out += out.empty() ? "" : ",") += part;
    return out;
}

}  // namespace

std::vector<ActiveJob> parse_jobs(std::string_view printed)
{
    std::vector<ActiveJob> out;
    while (!printed.empty()) {
        std::string_view line = next_token(printed, "\n");
        ActiveJob job;
        job.id = next_token(line, "|");
        job.name = next_token(line, "|");
        job.state = next_token(line, "|");
        job.nodes = next_token(line, "|");
        OwnLicences own = own_licences(line);
        job.licences = own.sum;
        job.types = std::move(own.types);
        if (!job.id.empty()) out.push_back(std::move(job));
    }
    return out;
}

std::vector<Disagreement> compare_jobs(const std::vector<ActiveJob> &jobs,
                                       const pool::Inventories &pool)
{
    std::vector<Disagreement> out;
    auto leases = leases_by_job(pool);
    for (const ActiveJob &job : jobs) {
        auto held = leases.find(job.id);
        compare_job(job, held == leases.end() ? std::vector<Held>{} : held->second,
                    all_answered(pool), out);
    }
    for (const auto &[id, held] : leases) {
        if (std::any_of(jobs.begin(), jobs.end(),
                        [&id = id](const ActiveJob &job) { return job.id == id; }))
            continue;
        for (const Held &h : held)
            out.push_back({"lease without job", "job " + id,
                           h.server + " has a lease of it (" + h.lease->owner.user + ", node " +
                               h.lease->owner.node + "), and Slurm runs no such job",
                           "rgpu release --job " + id +
                               "; rgpud does so by itself where [rgpud] squeue works"});
    }
    return out;
}

namespace {

// Hundredths of the GPUs of this type that the pool has, the silent servers' as the snapshot says.
unsigned long whole_pool(const pool::Inventories &pool, const Snapshot *snapshot,
                         const std::string &type)
{
    unsigned long gpus = 0;
    for (const auto &told : pool) {
        if (told.answer)
            for (const pool::GpuState &gpu : told.answer->gpus) gpus += is_of_type(gpu.name, type);
        for (size_t i = 0; !told.answer && snapshot && i < snapshot->servers.size(); ++i)
            if (snapshot->servers[i].name == told.server)
                gpus += gpus_of_type(snapshot->servers[i], type);
    }
    return gpus * static_cast<unsigned long>(kWholeGpu);
}

unsigned long licences_of(const ActiveJob &job, const std::string &type)
{
    if (type.empty()) return job.licences;
    auto found = job.types.find(type);
    return found == job.types.end() ? 0 : found->second;
}

}  // namespace

std::vector<Disagreement> compare_licences(const Licences &licences,
                                           const std::vector<ActiveJob> &jobs,
                                           const pool::Inventories &pool, const Snapshot *snapshot,
                                           const std::string &name, unsigned long reserved,
                                           const std::string &type)
{
    std::vector<Disagreement> out;
    const std::string licence = type.empty() ? "rgpu" : "rgpu_" + type;
    unsigned long used = 0;
    for (const ActiveJob &job : jobs) used += licences_of(job, type);
    if (used != licences.used && std::all_of(jobs.begin(), jobs.end(), is_settled))
        out.push_back(
            {"licence count", "licence " + licence,
             "Slurm counts " + number(licences.used) + " in use, and its jobs have " + number(used),
             "restart slurmctld, which counts anew"});
    const unsigned long whole = whole_pool(pool, snapshot, type);
    if (whole != licences.total && (all_answered(pool) || snapshot))
        out.push_back({"licence count", "licence " + licence,
                       "Slurm sells " + number(licences.total) + ", and the pool has " +
                           number(whole) + " hundredths of GPUs",
                       type.empty() ? "set Licenses=rgpu:" + number(whole) +
                                          " in slurm.conf (rgpu slurm setup --apply --licences " +
                                          number(whole) + "), then scontrol reconfigure"
                                    : "write " + licence + ":" + number(whole) +
                                          " into the Licenses= line of slurm.conf (rgpu slurm "
                                          "setup --apply), then scontrol reconfigure"});
    std::set<std::string> active;
    for (const ActiveJob &job : jobs)
        if (type.empty() || licences_of(job, type)) active.insert(job.id);
    unsigned long missing = missing_licences(pool, snapshot, licences, &active, type);
    if (!name.empty() && missing != reserved)
        out.push_back({"reservation", "reservation " + name,
                       "it holds " + number(reserved) + " licences of " + licence + ", and " +
                           number(missing) + " cannot be given now",
                       "rgpu slurm sync; is rgpu-sync.timer active?"});
    return out;
}

std::vector<Disagreement> compare_snapshot(const Snapshot *snapshot, const pool::Inventories &pool)
{
    if (!snapshot)
        return {{"snapshot", "the snapshot",
                 "it cannot be read, so that job_submit refuses nothing for its size",
                 "rgpu slurm sync"}};
    std::vector<Disagreement> out;
    for (const auto &told : pool) {
        if (!told.answer) continue;
        auto known = std::find_if(snapshot->servers.begin(), snapshot->servers.end(),
                                  [&](const PoolServer &s) { return s.name == told.server; });
        if (known == snapshot->servers.end() ? snapshot->complete()
                                             : known->gpus != told.answer->gpus.size())
            out.push_back(
                {"snapshot", "server " + told.server,
                 "it has " + number(told.answer->gpus.size()) + " GPUs, and the snapshot says " +
                     (known == snapshot->servers.end() ? "nothing of it" : number(known->gpus)),
                 "rgpu slurm sync; is rgpu-sync.timer active?"});
    }
    return out;
}

std::vector<Disagreement> compare_config(std::string_view shown)
{
    std::vector<Disagreement> out;
    auto missing = [&](const char *name, const std::string &found, const std::string &cure) {
        out.push_back(
            {"slurm.conf", name,
             found.empty() || found == "(null)" ? std::string("it is not set") : "it is " + found,
             cure + "; rgpu slurm setup says all that slurm.conf needs"});
    };
    struct {
        const char *name, *word, *cure;
    } lists[] = {{"GresTypes", "rgpu", "append rgpu: GresTypes=gpu,rgpu"},
                 {"JobSubmitPlugins", "rgpu",
                  "append rgpu as the last: without it jobs get GPUs and pay nothing"}};
    for (const auto &l : lists)
        if (std::string value = setting(shown, l.name); !has_token(value, l.word))
            missing(l.name, value, l.cure);
    for (const char *name : {"PrologSlurmctld", "EpilogSlurmctld", "Prolog", "Epilog"})
        if (std::string value = setting(shown, name); value.empty() || value == "(null)")
            missing(name, value,
                    "set it to the script of libexec/rgpu, or call rgpu slurm from yours "
                    "(doc/slurm.md)");
    if (std::string value = setting(shown, "SelectType"); !gives_steps_gres(value))
        missing("SelectType", value,
                "set it to select/cons_tres at a time without jobs, and restart slurmctld and "
                "slurmd: the steps of jobs get no GRES, and slurmctld forgets its jobs then");
    std::string flags = setting(shown, "PrologFlags");
    if (!has_token(flags, "Alloc") && !has_token(flags, "Contain"))
        missing("PrologFlags", flags,
                "add Alloc: the lease file must be there before the first step");
    return out;
}

std::vector<std::string> node_names(std::string_view shown)
{
    std::vector<std::string> out;
    while (!shown.empty())
        if (std::string node = word_of(next_token(shown, "\n"), "NodeName"); !node.empty())
            out.push_back(node);
    return out;
}

std::vector<Disagreement> compare_nodes(std::string_view shown)
{
    std::vector<Disagreement> out;
    std::map<std::string, std::vector<std::string>> kinds;
    while (!shown.empty()) {
        std::string_view line = next_token(shown, "\n");
        std::string node = word_of(line, "NodeName"), reason = word_of(line, "Reason");
        if (node.empty()) continue;
        if (std::string gres = rgpu_of(word_of(line, "Gres")); !gres.empty())
            kinds[gres].push_back(node);
        if (reason.find("gres/rgpu") != reason.npos)
            out.push_back(
                {"node", "node " + node,
                 "Slurm says of it: " + reason.substr(0, reason.find_last_not_of(' ') + 1),
                 "make its gres.conf the same as the others', restart its slurmd, then scontrol "
                 "update node=" +
                     node + " state=resume"});
    }
    if (kinds.size() < 2) return out;
    auto most = std::max_element(kinds.begin(), kinds.end(), [](const auto &a, const auto &b) {
        return a.second.size() < b.second.size();
    });
    for (const auto &[gres, nodes] : kinds)
        for (const std::string &node : nodes)
            if (gres != most->first)
                out.push_back({"node", "node " + node,
                               "it has Gres " + gres + ", and most have " + most->first,
                               "give all NodeName lines of slurm.conf the same rgpu"});
    return out;
}

}  // namespace rgpu::slurm
