// What `rgpu list` and `rgpu leases` say of servers, GPUs and leases: tables and JSON.
#pragma once

#include <string>
#include <vector>

#include "pool/client.h"

namespace rgpu::cli {

using Inventories = std::vector<pool::Told<pool::Inventory>>;

// One line a server that answers, its GPUs below with who holds them; then those that do not, and
// why.
std::string pool_table(const Inventories &inventories);
std::string pool_json(const Inventories &inventories);

std::string lease_table(const Inventories &inventories);
std::string lease_json(const Inventories &inventories);

// "2.0 GiB": for people, not exact.
std::string human_size(uint64_t bytes);

// How many servers did not answer.
size_t silent(const Inventories &inventories);

}  // namespace rgpu::cli
