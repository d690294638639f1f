// SPDX-License-Identifier: Apache-2.0
// What `rgpu list` and `rgpu leases` say of servers, GPUs and leases: tables and JSON.
#pragma once

#include <string>
#include <vector>

#include "pool/client/client.h"

namespace rgpu::cli {

// One line a server that answers, its GPUs below with who holds them; then those that do not, and
// why.
std::string pool_table(const pool::Inventories &inventories);
std::string pool_json(const pool::Inventories &inventories);

std::string lease_table(const pool::Inventories &inventories);
std::string lease_json(const pool::Inventories &inventories);

// "alice", or the number of a user whose name nobody told; "alice: job 17 on cn1".
std::string user_of(const pool::Owner &owner);
std::string who_of(const pool::Owner &owner);

// 3:25:45, as Slurm has hours.
std::string clock_of(double seconds);
// "512 J", "36.2 kJ", and from a tenth of a kilowatt-hour on "0.25 kWh".
std::string energy_text(double joules);
// GPUs in hundredths: 250 are "2.5".
std::string gpus_text(unsigned long hundredths);

}  // namespace rgpu::cli
