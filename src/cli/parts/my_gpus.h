// SPDX-License-Identifier: Apache-2.0
// What `rgpu list --mine` says: the GPUs that this process has, as its lease file names them, and
// how far their servers are. No server is asked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pool/messages/messages.h"
#include "util/result.h"

namespace rgpu::cli {

// $RGPU_LEASE; `invalid` where it is not set.
Result<std::string> my_lease_file();

// A round trip to each grant's server in microseconds, the median of a few; nothing where it does
// not answer.
using RoundTrips = std::vector<std::optional<double>>;
RoundTrips round_trips(const std::vector<pool::Grant> &grants);

// One line a GPU, in the order in which programs see them.
std::string my_table(const std::vector<pool::Grant> &grants, const RoundTrips &links);
// {"file": ..., "gpus": [{"number": 0, "name": ..., "uuid": ..., "server": ..., "address": ...,
// "lease": ..., "share": 100, "most": 100, "memory": bytes, "round_trip_us": 61.5 or null}]}
// `file`: where the lease file is, as "file". Without links nothing is said of them.
std::string my_json(const std::vector<pool::Grant> &grants, const std::string &file,
                    const RoundTrips &links = {});

}  // namespace rgpu::cli
