// SPDX-License-Identifier: Apache-2.0
// rgpu leases: the leases that the caller may see.
#include "cli/parts/inventory_command.h"

namespace rgpu::cli {
namespace {

class Leases : public InventoryCommand {
public:
    Leases() : InventoryCommand(lease_table, lease_json) {}
};

const Registered<Leases> leases{"", "leases", "Show the leases that you may see"};

}  // namespace
}  // namespace rgpu::cli
