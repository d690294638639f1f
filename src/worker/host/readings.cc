// SPDX-License-Identifier: Apache-2.0
#include "worker/host/readings.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include <nlohmann/json.hpp>

#include "worker/driver/device_meter.h"
#include "worker/host/host_nvml.h"

namespace rgpu::worker {
namespace {

using Json = nlohmann::json;
using Device = HostNvml::Device;

// What is used of nvml.h, which is not needed to build. Numbers as there.
enum { kTemperatureOfGpu = 0, kShutdownThreshold = 0, kSlowdownThreshold = 1 };
enum { kUncorrected = 1, kVolatile = 0 };
enum { kP2pRead = 0, kP2pNvlink = 2 };
struct Pci {
    char short_id[16];
    unsigned domain, bus, device, ids, subsystem;
    char id[32];
};

Json of(const HostNvml &nvml, Device device, unsigned index, const std::vector<Device> &all)
{
    Json json = {{"index", index}};
    if (const std::string uuid = nvml.uuid(device); !uuid.empty()) json["uuid"] = uuid;
    Pci pci{};
    if (nvml.ask("nvmlDeviceGetPciInfo_v3", device, &pci)) json["pci"] = pci.id;
    unsigned value = 0, other = 0;
    if (nvml.ask("nvmlDeviceGetTemperature", device, int{kTemperatureOfGpu}, &value))
        json["temperature"] = value;
    if (nvml.ask("nvmlDeviceGetPowerUsage", device, &value)) json["power"] = value;
    if (nvml.ask("nvmlDeviceGetTemperatureThreshold", device, int{kSlowdownThreshold}, &value))
        json["slowdown"] = value;
    if (nvml.ask("nvmlDeviceGetTemperatureThreshold", device, int{kShutdownThreshold}, &value))
        json["shutdown"] = value;
    if (nvml.ask("nvmlDeviceGetComputeMode", device, &value)) json["compute_mode"] = value;
    if (nvml.ask("nvmlDeviceGetPersistenceMode", device, &value)) json["persistence"] = value;
    unsigned long long errors = 0;
    if (nvml.ask("nvmlDeviceGetEccMode", device, &value, &other) && value == 1 &&
        nvml.ask("nvmlDeviceGetTotalEccErrors", device, int{kUncorrected}, int{kVolatile}, &errors))
        json["ecc_uncorrected"] = errors;
    unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
    if (nvml.ask("nvmlDeviceGetRemappedRows", device, &corrected, &uncorrected, &pending,
                 &failed)) {
        json["remap_pending"] = pending;
        json["remap_failed"] = failed;
    }
    Json p2p = Json::array(), nvlink = Json::array();
    for (Device peer : all) {
        int status = 0;
        bool told = peer != device &&
                    nvml.ask("nvmlDeviceGetP2PStatus", device, peer, int{kP2pRead}, &status);
        p2p.push_back(told ? status : 0);
        told = peer != device &&
               nvml.ask("nvmlDeviceGetP2PStatus", device, peer, int{kP2pNvlink}, &status);
        nvlink.push_back(told && status == 0 ? 1 : 0);
    }
    json["p2p"] = std::move(p2p);
    json["nvlink"] = std::move(nvlink);
    return json;
}

Json read()
{
    const char *driver = getenv("RGPU_DRIVER");
    // Opened, not started: that would take seconds, and change nothing of what NVML says.
    void *cuda = driver ? dlopen(driver, RTLD_LAZY | RTLD_LOCAL) : nullptr;
    if (cuda && dlsym(cuda, kSoftwareMark))
        return {{"why_not", "its GPUs are software, which NVML does not know"}};
    const Result<HostNvml> nvml = HostNvml::open();
    if (!nvml) {
        Json json = {{"why_not", nvml.error().text}};
        if (nvml.error().kind == ErrorKind::internal) json["broken"] = 1;
        return json;
    }
    Json json = Json::object();
    char release[96] = "";
    if (nvml->ask("nvmlSystemGetDriverVersion", release, static_cast<unsigned>(sizeof release)))
        json["driver"] = release;
    int version = 0;
    if (nvml->ask("nvmlSystemGetCudaDriverVersion_v2", &version)) json["cuda"] = version;
    const std::vector<Device> all = nvml->devices();
    json["gpus"] = Json::array();
    for (unsigned i = 0; i < all.size(); ++i) json["gpus"].push_back(of(*nvml, all[i], i, all));
    return json;
}

}  // namespace

std::string readings_json()
{
    return read().dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rgpu::worker
