// The messages of the control API as JSON: the format is in doc/api.md.
//
// What a server reads is checked to the last field: an unknown one is an error, because it could
// be a condition that this version does not know. What a client reads may hold more than it knows.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pool/messages/messages.h"
#include "util/result.h"

namespace rgpu::pool {

// Requests. Decoding fails with `invalid` and a sentence for the asker.
std::string encode(const Request &request);
Result<Request> decode_request(std::string_view json);

std::string encode(const Drain &drain);
Result<Drain> decode_drain(std::string_view json);

std::string encode(const Lend &lend);
Result<Lend> decode_lend(std::string_view json);

// Replies.
std::string encode(const Offer &offer);
Result<Offer> decode_offer(std::string_view json);
std::string encode(const Inventory &inventory);
Result<Inventory> decode_inventory(std::string_view json);

std::string encode(const Sharing &sharing);
Result<Sharing> decode_sharing(std::string_view json);

std::string encode(const Health &health);
Result<Health> decode_health(std::string_view json);
std::string encode(const Alive &alive);
Result<Alive> decode_alive(std::string_view json);
std::string encode(const NodeConfigs &configs);
Result<NodeConfigs> decode_node_configs(std::string_view json);
std::string encode(const Topology &topology);
Result<Topology> decode_topology(std::string_view json);

// {"data_port": 7711, "leases": [...]}; a lease's secret is there if it is not empty.
struct Leases {
    int data_port = 0;
    std::vector<Lease> leases;
};
std::string encode(const Leases &leases);
Result<Leases> decode_leases(std::string_view json);

// {"released": n, "lost": k, "gpus": g, "withdrawn": w, "usage": [...]}; without the last two where
// there are none
std::string encode(const Released &released);
Result<Released> decode_released(std::string_view json);

// {"error": {"kind": "invalid", "text": "..."}}
std::string encode_error(const Error &error);
// The error of a reply; what is no such JSON becomes `disconnected` with the HTTP status.
Error decode_error(std::string_view json, long status);

// What `rgpu-worker --inventory` prints.
struct DriverInventory {
    int driver_version = 0;
    std::string driver_release;  // empty: not known
    std::vector<GpuState> gpus;
};
Result<DriverInventory> decode_driver_inventory(std::string_view json);

}  // namespace rgpu::pool
