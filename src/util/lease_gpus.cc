// SPDX-License-Identifier: Apache-2.0
#include "util/lease_gpus.h"

namespace rgpu {
namespace {

int number(const Json *j)
{
    const double *value = j ? j->number() : nullptr;
    return value && *value >= 0 && *value < 65536 ? static_cast<int>(*value) : -1;
}

uint64_t positive(const Json *j)
{
    const double *value = j ? j->number() : nullptr;
    return value && *value > 0 && *value < 1e18 ? static_cast<uint64_t>(*value) : 0;
}

bool is_true(const Json *j)
{
    const bool *value = j ? j->boolean() : nullptr;
    return value && *value;
}

}  // namespace

std::vector<LeaseGpu> lease_gpus(const Json &lease)
{
    std::vector<LeaseGpu> all;
    const Json *servers = lease.get("servers");
    if (!servers || !servers->array()) return all;
    for (size_t i = 0; i < servers->array()->size(); i++) {
        const Json &server = (*servers->array())[i];
        if (const Json *list = server.get("gpus"); list && list->array())
            for (const Json &gpu : *list->array())
                all.push_back({gpu.text("uuid"),
                               gpu.text("name"),
                               {server.text("name"), number(gpu.get("index"))},
                               i,
                               positive(gpu.get("memory")),
                               is_true(server.get("nccl"))});
    }
    return all;
}

}  // namespace rgpu
