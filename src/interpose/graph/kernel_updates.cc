// SPDX-License-Identifier: Apache-2.0
#include "interpose/graph/kernel_updates.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "interpose/state/client.h"

namespace rgpu::interpose {
namespace {

using calls::HandleId;

// CUDA C++ Programming Guide, "Compute Capabilities", Technical Specifications: all devices.
constexpr unsigned kMostGrid[] = {0x7fffffff, 65535, 65535};
// A program has so many at most; then it begins anew.
constexpr size_t kMostKnown = 1 << 16;

struct Taken {
    std::mutex mutex;
    std::map<std::pair<HandleId, HandleId>, KernelUpdate> known;  // by executable graph and node
};
Taken &taken() { return client_part<Taken>(Part::kernel_updates); }

bool is_grid(const unsigned (&grid)[3])
{
    for (size_t i = 0; i < std::size(grid); ++i)
        if (grid[i] == 0 || grid[i] > kMostGrid[i]) return false;
    return true;
}

}  // namespace

bool will_take(HandleId exec, HandleId node, const KernelUpdate &update)
{
    Taken &all = taken();
    std::lock_guard lock(all.mutex);
    const auto found = all.known.find({exec, node});
    if (found == all.known.end()) return false;
    const KernelUpdate &before = found->second;
    return before.function == update.function && before.kernel == update.kernel &&
           before.context == update.context && before.shared_bytes == update.shared_bytes &&
           std::equal(std::begin(before.block), std::end(before.block), update.block) &&
           is_grid(update.grid);
}

void note_taken(HandleId exec, HandleId node, const KernelUpdate &update)
{
    Taken &all = taken();
    std::lock_guard lock(all.mutex);
    if (all.known.size() >= kMostKnown) all.known.clear();
    all.known.insert_or_assign({exec, node}, update);
}

void forget_updates(HandleId exec)
{
    Taken &all = taken();
    std::lock_guard lock(all.mutex);
    all.known.erase(all.known.lower_bound({exec, 0}), all.known.lower_bound({exec + 1, 0}));
}

void forget_all_updates()
{
    Taken &all = taken();
    std::lock_guard lock(all.mutex);
    all.known.clear();
}

}  // namespace rgpu::interpose
