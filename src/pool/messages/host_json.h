// SPDX-License-Identifier: Apache-2.0
// What a server says of its host, and of compute nodes, as JSON (doc/api.md).
#pragma once

#include <string>
#include <string_view>

#include "pool/messages/messages.h"
#include "util/result.h"

namespace rgpu::pool {

std::string encode(const Health &health);
Result<Health> decode_health(std::string_view json);

std::string encode(const Alive &alive);
Result<Alive> decode_alive(std::string_view json);

std::string encode(const NodeConfigs &configs);
Result<NodeConfigs> decode_node_configs(std::string_view json);

std::string encode(const Topology &topology);
Result<Topology> decode_topology(std::string_view json);

}  // namespace rgpu::pool
