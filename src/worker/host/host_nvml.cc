// SPDX-License-Identifier: Apache-2.0
#include "worker/host/host_nvml.h"

namespace rgpu::worker {

Result<HostNvml> HostNvml::open()
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return error(ErrorKind::unavailable, "NVML cannot be opened: %s", dlerror());
    auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
    const int status = init ? init() : -1;
    if (status == 0) return HostNvml(library);
    auto name = reinterpret_cast<const char *(*)(int)>(dlsym(library, "nvmlErrorString"));
    return error(ErrorKind::internal, "NVML does not start: %s",
                 name ? name(status) : ("status " + std::to_string(status)).c_str());
}

std::vector<HostNvml::Device> HostNvml::devices() const
{
    std::vector<Device> all;
    unsigned count = 0;
    ask("nvmlDeviceGetCount_v2", &count);
    for (unsigned i = 0; i < count; ++i) {
        Device device = nullptr;
        if (ask("nvmlDeviceGetHandleByIndex_v2", i, &device)) all.push_back(device);
    }
    return all;
}

std::string HostNvml::uuid(Device device) const
{
    char text[96] = "";
    return ask("nvmlDeviceGetUUID", device, static_cast<char *>(text),
               static_cast<unsigned>(sizeof text))
               ? text
               : "";
}

}  // namespace rgpu::worker
