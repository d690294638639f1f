#include "interpose/base/addresses.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

#include "calls/uuid.h"
#include "util/lease_gpus.h"

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

Addresses read_addresses()
{
    const char *path = getenv("RGPU_LEASE");
    std::ifstream in(path ? path : "");
    auto json = Json::parse(std::string(std::istreambuf_iterator<char>(in), {}));
    Addresses all;
    if (!json) return all;
    const auto gpus = lease_gpus(*json);
    std::vector<ServerGpu> places;
    for (const LeaseGpu &gpu : gpus) places.push_back(gpu.place);
    const auto addresses = pci_addresses(places);
    for (size_t i = 0; i < gpus.size(); i++) all[gpus[i].uuid] = addresses[i];
    return all;
}

void readdress(wire::Snapshot &snapshot, const Addresses &addresses)
{
    for (wire::DeviceSnapshot &device : snapshot.devices)
        if (auto found = addresses.find(calls::uuid_text(device.uuid)); found != addresses.end())
            set_address(device, found->second);
}

}  // namespace rgpu::interpose
