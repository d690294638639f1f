// SPDX-License-Identifier: Apache-2.0
#include "worker/host/readings.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include <nlohmann/json.hpp>

#include "worker/driver/device_meter.h"

namespace rgpu::worker {
namespace {

using Json = nlohmann::json;
using Device = struct nvmlDevice_st *;

// What is used of nvml.h, which is not needed to build. Numbers as there.
enum { kTemperatureOfGpu = 0, kShutdownThreshold = 0, kSlowdownThreshold = 1 };
enum { kUncorrected = 1, kVolatile = 0 };
enum { kP2pRead = 0, kP2pNvlink = 2 };
struct Pci {
    char short_id[16];
    unsigned domain, bus, device, ids, subsystem;
    char id[32];
};

void *library = nullptr;

// Calls the function of this name if NVML has it; true when it answered.
template <class... A> bool ask(const char *name, A... arguments)
{
    auto function = reinterpret_cast<int (*)(A...)>(dlsym(library, name));
    return function && function(arguments...) == 0;
}

Json of(Device device, unsigned index, const std::vector<Device> &all)
{
    Json json = {{"index", index}};
    char uuid[96] = "";
    if (ask("nvmlDeviceGetUUID", device, uuid, static_cast<unsigned>(sizeof uuid)))
        json["uuid"] = uuid;
    Pci pci{};
    if (ask("nvmlDeviceGetPciInfo_v3", device, &pci)) json["pci"] = pci.id;
    unsigned value = 0, other = 0;
    if (ask("nvmlDeviceGetTemperature", device, int{kTemperatureOfGpu}, &value))
        json["temperature"] = value;
    if (ask("nvmlDeviceGetPowerUsage", device, &value)) json["power"] = value;
    if (ask("nvmlDeviceGetTemperatureThreshold", device, int{kSlowdownThreshold}, &value))
        json["slowdown"] = value;
    if (ask("nvmlDeviceGetTemperatureThreshold", device, int{kShutdownThreshold}, &value))
        json["shutdown"] = value;
    if (ask("nvmlDeviceGetComputeMode", device, &value)) json["compute_mode"] = value;
    if (ask("nvmlDeviceGetPersistenceMode", device, &value)) json["persistence"] = value;
    unsigned long long errors = 0;
    if (ask("nvmlDeviceGetEccMode", device, &value, &other) && value == 1 &&
        ask("nvmlDeviceGetTotalEccErrors", device, int{kUncorrected}, int{kVolatile}, &errors))
        json["ecc_uncorrected"] = errors;
    unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
    if (ask("nvmlDeviceGetRemappedRows", device, &corrected, &uncorrected, &pending, &failed)) {
        json["remap_pending"] = pending;
        json["remap_failed"] = failed;
    }
    Json p2p = Json::array(), nvlink = Json::array();
    for (Device peer : all) {
        int status = 0;
        bool told = peer != device &&
                    ask("nvmlDeviceGetP2PStatus", device, peer, int{kP2pRead}, &status);
        p2p.push_back(told ? status : 0);
        told = peer != device &&
               ask("nvmlDeviceGetP2PStatus", device, peer, int{kP2pNvlink}, &status);
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
    library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return {{"why_not", std::string("NVML cannot be opened: ") + dlerror()}};
    auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
    if (int status = init ? init() : -1) {
        auto name = reinterpret_cast<const char *(*)(int)>(dlsym(library, "nvmlErrorString"));
        return {{"why_not", "NVML does not start: " + (name ? std::string(name(status))
                                                            : "status " + std::to_string(status))},
                {"broken", 1}};
    }
    Json json = Json::object();
    char release[96] = "";
    if (ask("nvmlSystemGetDriverVersion", release, static_cast<unsigned>(sizeof release)))
        json["driver"] = release;
    int version = 0;
    if (ask("nvmlSystemGetCudaDriverVersion_v2", &version)) json["cuda"] = version;
    unsigned count = 0;
    std::vector<Device> all;
    ask("nvmlDeviceGetCount_v2", &count);
    for (unsigned i = 0; i < count; ++i) {
        Device device = nullptr;
        if (ask("nvmlDeviceGetHandleByIndex_v2", i, &device)) all.push_back(device);
    }
    json["gpus"] = Json::array();
    for (unsigned i = 0; i < all.size(); ++i) json["gpus"].push_back(of(all[i], i, all));
    return json;
}

}  // namespace

std::string readings_json()
{
    return read().dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rgpu::worker
