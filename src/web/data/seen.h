// SPDX-License-Identifier: Apache-2.0
// What is known of the pool at one time, and how a viewer is told of it in JSON.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pool/messages/messages.h"
#include "web/data/queue.h"
#include "web/data/viewer.h"

namespace rgpu::web {

struct ServerSeen {
    std::string name;
    std::string failure;  // why it did not answer; then what follows is from before, if it ever did
    std::optional<pool::Inventory> inventory;
    std::optional<pool::Sharing> sharing;  // an older server has none
    std::map<int, int> celsius;            // by the GPU's index; where somebody reads it
};

struct Seen {
    int64_t time_ms = 0;  // since the epoch
    std::vector<ServerSeen> servers;
    std::vector<pool::LeaseUsage> usages;  // of the leases that are held, of all servers
    Queue queue;
};

// "GPU 0" and "61 C" of the check `temperature`.
std::map<int, int> celsius_of(const pool::Health &health);

// One server as JSON. Of leases that the viewer may not see it has the share alone:
//   {"name", "failure", "version", "software",
//    "gpus": [{"name", "memory", "free_share", "drained", "use", "memory_used", "celsius",
//              "holders": [{"share", "most", "memory", "use", "state",
//                           "mine", "lease", "user", "job", "node", "host", "pid"}]}]}
// Use is percent of time of the last ten seconds; a field that is not known is missing.
std::string server_json(const ServerSeen &server, const Viewer &viewer);

}  // namespace rgpu::web
