// rgpu list: what the pool has and who holds it.
#include "cli/parts/inventory_command.h"

namespace rgpu::cli {
namespace {

class List : public InventoryCommand {
public:
    List() : InventoryCommand(pool_table, pool_json) {}
};

const Registered<List> list{"", "list", "Show servers, GPUs, what is free, and who holds the rest"};

}  // namespace
}  // namespace rgpu::cli
