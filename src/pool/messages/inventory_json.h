// SPDX-License-Identifier: Apache-2.0
// A server's GPUs, and who shares them, as JSON (doc/api.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pool/messages/messages.h"
#include "util/result.h"

namespace rgpu::pool {

std::string encode(const Inventory &inventory);
Result<Inventory> decode_inventory(std::string_view json);
std::string encode(const Sharing &sharing);
Result<Sharing> decode_sharing(std::string_view json);

// What `rgpu-worker --inventory` prints.
struct DriverInventory {
    int driver_version = 0;
    std::string driver_release;  // empty: not known
    std::vector<GpuState> gpus;
    // Of each of them, what the driver says that it can do: 1 or 0; -1: it does not tell.
    struct Abilities {
        int stream_memory_ops = -1;  // of 64 bits
        int host_pointers = -1;      // pinned memory has one address on both sides
    };
    std::vector<Abilities> abilities = {};
};
Result<DriverInventory> decode_driver_inventory(std::string_view json);

}  // namespace rgpu::pool
