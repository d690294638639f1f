// SPDX-License-Identifier: Apache-2.0
// The server's first frame: everything a client may ask that does not change while it is connected.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calls/cuda_api.h"
#include "util/result.h"

namespace rgpu::wire {

struct DeviceSnapshot {
    std::string name;
    CUuuid uuid{};
    std::string pci_bus_id;
    uint64_t total_memory = 0;
    // Attribute i's value at [i] (index 0 is unused); status[i] is what cuDeviceGetAttribute
    // returned.
    std::vector<int32_t> attributes;
    std::vector<uint16_t> attribute_status;
    std::vector<uint8_t> can_access_peer;  // [other device]
};

struct Snapshot {
    std::string server;  // its name, for messages
    int32_t driver_version = 0;
    uint32_t worker_pid = 0;
    // Where the server's device memory lies, if that is known beforehand; size 0 if not.
    uint64_t device_base = 0, device_size = 0;
    std::vector<DeviceSnapshot> devices;
    // Whether the server keeps module images, and the tags (wire/image.h) of those that it has of
    // this user.
    uint8_t keeps_images = 0;
    std::vector<uint64_t> images;
    // The server's table by name, in its order, and for each whether a client may send it; empty
    // when both sides have the same.
    std::vector<std::string> calls;
    std::vector<uint8_t> served;
};

std::vector<uint8_t> encode(const Snapshot &);
Result<Snapshot> decode_snapshot(const void *data, size_t bytes);

}  // namespace rgpu::wire
