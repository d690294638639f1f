// SPDX-License-Identifier: Apache-2.0
#include "interpose/base/addresses.h"

#include <cstdio>
#include <string>
#include <utility>

#include "calls/uuid.h"

namespace rgpu::interpose {
namespace {

void set_address(wire::DeviceSnapshot &d, const std::string &address)
{
    unsigned domain = 0, bus = 0, device = 0;
    if (sscanf(address.c_str(), "%x:%x:%x", &domain, &bus, &device) != 3) return;
    d.pci_bus_id = address;
    for (auto [which, value] : {std::pair(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, domain),
                                {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, bus},
                                {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, device}})
        if (static_cast<size_t>(which) < d.attributes.size()) {
            d.attributes[which] = static_cast<int32_t>(value);
            d.attribute_status[which] = CUDA_SUCCESS;
        }
}

}  // namespace

void readdress(wire::Snapshot &snapshot, const std::vector<LeasedGpu> &gpus)
{
    for (wire::DeviceSnapshot &device : snapshot.devices) {
        const std::string uuid = calls::uuid_text(device.uuid);
        for (const LeasedGpu &gpu : gpus)
            if (gpu.uuid == uuid) set_address(device, gpu.pci);
    }
}

}  // namespace rgpu::interpose
