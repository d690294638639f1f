#include "interpose/base/addresses.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

#include "calls/uuid.h"
#include "util/json_reader.h"
#include "util/pci_address.h"

namespace rgpu::interpose {
namespace {

int number(const Json *j)
{
    const double *value = j ? j->number() : nullptr;
    return value && *value >= 0 && *value < 65536 ? static_cast<int>(*value) : -1;
}

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
    std::vector<ServerGpu> gpus;
    std::vector<std::string> uuids;
    const Json *servers = json ? json->get("servers") : nullptr;
    if (servers && servers->array())
        for (const Json &server : *servers->array())
            if (const Json *list = server.get("gpus"); list && list->array())
                for (const Json &gpu : *list->array()) {
                    gpus.push_back({server.text("name"), number(gpu.get("index"))});
                    uuids.push_back(gpu.text("uuid"));
                }
    const auto addresses = pci_addresses(gpus);
    Addresses all;
    for (size_t i = 0; i < uuids.size(); i++) all[uuids[i]] = addresses[i];
    return all;
}

void readdress(wire::Snapshot &snapshot, const Addresses &addresses)
{
    for (wire::DeviceSnapshot &device : snapshot.devices)
        if (auto found = addresses.find(calls::uuid_text(device.uuid)); found != addresses.end())
            set_address(device, found->second);
}

}  // namespace rgpu::interpose
