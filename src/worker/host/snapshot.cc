// SPDX-License-Identifier: Apache-2.0
// Questions to the driver, once.
#include "worker/host/snapshot.h"

#include <unistd.h>

#include "calls/errors.h"
#include "calls/uuid.h"
#include "worker/bands/bands.h"
#include "worker/calls/services.h"
#include "worker/connection/mailbox.h"
#include "worker/driver/device_meter.h"
#include "worker/driver/driver.h"

namespace rgpu::worker {

namespace {

Error driver_error(const char *call, CUresult r)
{
    const char *name = calls::error_name(r);
    return error(ErrorKind::unavailable, "%s: %s", call, name ? name : "unknown error");
}

Result<wire::DeviceSnapshot> look_at(CUdevice d, int count)
{
    wire::DeviceSnapshot s;
    char text[256] = "";
    size_t memory = 0;
    if (CUresult r = DRIVER(cuDeviceGetName)(text, sizeof text, d))
        return driver_error("cuDeviceGetName", r);
    s.name = text;
    if (CUresult r = DRIVER(cuDeviceGetUuid_v2)(&s.uuid, d))
        return driver_error("cuDeviceGetUuid", r);
    if (CUresult r = DRIVER(cuDeviceTotalMem_v2)(&memory, d))
        return driver_error("cuDeviceTotalMem", r);
    s.total_memory = memory;
    if (DRIVER(cuDeviceGetPCIBusId)(text, sizeof text, d) == CUDA_SUCCESS) s.pci_bus_id = text;
    for (int a = 0; a < CU_DEVICE_ATTRIBUTE_MAX; a++) {
        int value = 0;
        CUresult r = a ? DRIVER(cuDeviceGetAttribute)(&value, static_cast<CUdevice_attribute>(a), d)
                       : CUDA_ERROR_INVALID_VALUE;
        s.attributes.push_back(value);
        s.attribute_status.push_back(static_cast<uint16_t>(r));
    }
    // Processes give each other descriptors through workers' mailboxes.
    if (!Mailbox::here().is_open())
        for (CUdevice_attribute a :
             {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
              CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES})
            s.attributes[a] = 0;
    for (CUdevice other = 0; other < count; other++) {
        int can = 0;
        if (other != d) DRIVER(cuDeviceCanAccessPeer)(&can, d, other);
        s.can_access_peer.push_back(static_cast<uint8_t>(can));
    }
    return s;
}

std::string json_string(const std::string &s)
{
    std::string out = "\"";
    for (char c : s) {
        char escaped[8];
        if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20)
            snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
        else
            escaped[0] = c, escaped[1] = 0;
        out += escaped;
    }
    return out + "\"";
}

}  // namespace

Result<wire::Snapshot> take_snapshot(const std::string &server)
{
    wire::Snapshot s;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    s.server = server.empty() ? host : server;
    s.worker_pid = static_cast<uint32_t>(getpid());
    int count = 0;
    if (CUresult r = DRIVER(cuDriverGetVersion)(&s.driver_version))
        return driver_error("cuDriverGetVersion", r);
    if (CUresult r = DRIVER(cuDeviceGetCount)(&count)) return driver_error("cuDeviceGetCount", r);
    for (CUdevice d = 0; d < count; d++) {
        auto one = look_at(d, count);
        if (!one) return std::move(one).error();
        s.devices.push_back(std::move(*one));
    }
    // The software GPU knows beforehand where its memory lies.
    using Range = void (*)(uint64_t * base, uint64_t * size);
    if (auto range = reinterpret_cast<Range>(driver().symbol("rgpu_softgpu_device_range")))
        range(&s.device_base, &s.device_size);
    return s;
}

void renew(wire::Snapshot &snapshot)
{
    CUdevice d = 0;
    for (wire::DeviceSnapshot &device : snapshot.devices)
        if (size_t memory = 0; !DRIVER(cuDeviceTotalMem_v2)(&memory, d++))
            device.total_memory = memory;
}

void name_calls(wire::Snapshot &s)
{
    for (size_t i = 0; i < calls::kCallCount; i++) {
        s.calls.emplace_back(calls::kCalls[i].symbol);
        s.served.push_back(kServices[i].handle != nullptr);
    }
}

Result<std::string> inventory_json()
{
    auto s = take_snapshot();
    if (!s) return std::move(s).error();
    std::string out = "{\"driver_version\":" + std::to_string(s->driver_version) +
                      ",\"driver_release\":" + json_string(driver_release(driver())) +
                      ",\"gpus\":[";
    for (size_t i = 0; i < s->devices.size(); i++) {
        const wire::DeviceSnapshot &d = s->devices[i];
        auto attribute = [&](CUdevice_attribute a) {
            return std::to_string(d.attributes[static_cast<size_t>(a)]);
        };
        out +=
            (i ? "," : "") + std::string("{\"index\":") + std::to_string(i) +
            ",\"uuid\":" + json_string(calls::uuid_text(d.uuid)) +
            ",\"name\":" + json_string(d.name) + ",\"memory\":" + std::to_string(d.total_memory) +
            ",\"compute_capability\":\"" + attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
            "." + attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) +
            "\",\"pci\":" + json_string(d.pci_bus_id) + ",\"stream_memory_ops\":" +
            attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS) + ",\"host_pointers\":" +
            attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM) +
            ",\"fixed_addresses\":" +
            (gives_bands(driver(), static_cast<CUdevice>(i)) ? "true" : "false") + "}";
    }
    return out + "]}\n";
}

}  // namespace rgpu::worker
