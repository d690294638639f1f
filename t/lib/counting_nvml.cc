// SPDX-License-Identifier: Apache-2.0
// An NVML whose GPUs draw so many watts all the time: the file `gpus` beside it has a line "UUID
// WATTS" for each, and is read at each question.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>

namespace {

using Device = struct nvmlDevice_st *;

bool line_of(Device device, std::string &uuid, double &watts)
{
    Dl_info here;
    if (!dladdr(reinterpret_cast<void *>(&line_of), &here)) return false;
    const std::string path = here.dli_fname;
    std::ifstream file(path.substr(0, path.rfind('/')) + "/gpus");
    for (size_t i = 1; file >> uuid >> watts; ++i)
        if (i == reinterpret_cast<size_t>(device)) return true;
    return false;
}

}  // namespace

extern "C" {
int nvmlInit_v2() { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = 2;
    return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, Device *device)
{
    *device = reinterpret_cast<Device>(size_t{i} + 1);
    return 0;
}
int nvmlDeviceGetUUID(Device device, char *text, unsigned room)
{
    std::string uuid;
    double watts;
    if (!line_of(device, uuid, watts)) return 6;  // NVML_ERROR_NOT_FOUND
    snprintf(text, room, "%s", uuid.c_str());
    return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(Device device, unsigned long long *millijoules)
{
    std::string uuid;
    double watts;
    if (!line_of(device, uuid, watts)) return 6;
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *millijoules = static_cast<unsigned long long>(
        watts * (1e3 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e6));
    return 0;
}
}
