// SPDX-License-Identifier: Apache-2.0
// Leases, and what their end came to, as JSON (doc/api.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pool/messages/messages.h"
#include "util/result.h"

namespace rgpu::pool {

// {"data_port": 7711, "leases": [...]}; a lease's secret is there if it is not empty.
struct Leases {
    int data_port = 0;
    std::vector<Lease> leases;
};
std::string encode(const Leases &leases);
Result<Leases> decode_leases(std::string_view json);

// {"released": n, "lost": k, "gpus": g, "withdrawn": w, "died": "...", "usage": [...]}; without the
// last three where there are none
std::string encode(const Released &released);
Result<Released> decode_released(std::string_view json);

// {"name": the server's, "leases": [{"lease", "owner", "held_s", ...}]}; one of these is what the
// server keeps of a lease that has ended.
std::string encode(const Usages &usages);
Result<Usages> decode_usages(std::string_view json);
std::string encode(const LeaseUsage &usage);
Result<LeaseUsage> decode_usage(std::string_view json);

// The lease.json that the interposer reads (doc/architecture.md). All grants belong to one program.
std::string lease_file(const std::string &job, const std::vector<Grant> &grants);
// Its grants, without their secrets; at least one.
Result<std::vector<Grant>> decode_lease_file(std::string_view json);

}  // namespace rgpu::pool
