// SPDX-License-Identifier: Apache-2.0
// One block for each object.
#include "interpose/graph/node_memory.h"

#include <mutex>
#include <unordered_map>

#include "interpose/state/client.h"

namespace rgpu::interpose {

namespace {

struct Block {
    std::vector<uint8_t> asked;  // as it was given, to see whether it has changed
    std::vector<uint8_t> memory;
};
struct All {
    std::mutex mutex;
    std::unordered_map<calls::HandleId, Block> blocks;
};
All &all() { return client_part<All>(Part::node_memory); }

}  // namespace

uint8_t *keep(calls::HandleId owner, std::vector<uint8_t> bytes)
{
    std::lock_guard lock(all().mutex);
    Block &b = all().blocks[owner];
    if (b.memory.empty() || b.asked != bytes) {
        b.memory = bytes;
        if (b.memory.empty()) b.memory.resize(1);
        b.asked = std::move(bytes);
    }
    return b.memory.data();
}

void release_node_memory(calls::HandleId owner)
{
    std::lock_guard lock(all().mutex);
    all().blocks.erase(owner);
}

}  // namespace rgpu::interpose
