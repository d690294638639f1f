// SPDX-License-Identifier: Apache-2.0
#include "slurm/check/quotas.h"

#include <algorithm>

#include "slurm/terms/setting.h"
#include "util/next_token.h"
#include "util/units.h"

namespace rgpu::slurm {
namespace {

// A timer starts rgpu slurm preempt each three seconds.
constexpr std::chrono::seconds kSilent{120};

constexpr const char *kCure = "include quotas.conf in slurm.conf (doc/admin.md, \"Queues, "
                              "priorities, guaranteed quotas\"), or "
                              "set over_quota = false below [slurm] of rgpu.conf";

Disagreement wrong(const char *of, std::string found, std::string cure)
{
    return {"over_quota", of, std::move(found), std::move(cure)};
}

// A limit on licences, and a QOS to use what is over.
bool is_quota(const Qos &qos)
{
    return (qos.guarantee || !qos.of_types.empty()) && !qos.preempts.empty();
}

}  // namespace

std::vector<Disagreement> compare_quotas(std::string_view settings,
                                         const std::optional<std::vector<Qos>> &qos,
                                         std::optional<int64_t> since_run)
{
    std::vector<Disagreement> out;
    if (std::string type = setting(settings, "PreemptType"); type != "preempt/qos")
        out.push_back(wrong("PreemptType",
                            "it is " + type + ": jobs that use what is over would not make way",
                            kCure));
    std::string enforce = setting(settings, "AccountingStorageEnforce");
    if (!has_token(enforce, "limits") || !has_token(enforce, "qos"))
        out.push_back(wrong("AccountingStorageEnforce",
                            "it is " + enforce +
                                ": the limits of QOS do not bind, and nothing is "
                                "over them",
                            kCure));
    if (!qos)
        out.push_back(wrong("sacctmgr", "it does not tell the QOS",
                            "look whether slurmdbd runs: sacctmgr show qos"));
    else if (std::none_of(qos->begin(), qos->end(), is_quota))
        out.push_back(wrong("the QOS",
                            "none has both a limit on license/rgpu (GrpTRES) and another QOS that "
                            "it preempts",
                            "make them with quotas.sh (doc/admin.md)"));
    if (!since_run || std::chrono::seconds(*since_run) > kSilent)
        out.push_back(wrong(
            "rgpu slurm preempt",
            since_run ? "it ran last " + format_duration(std::chrono::seconds(*since_run)) + " ago"
                      : std::string("it has not run yet"),
            "systemctl enable --now rgpu-preempt.timer, where slurmctld runs"));
    return out;
}

}  // namespace rgpu::slurm
