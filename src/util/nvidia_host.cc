// SPDX-License-Identifier: Apache-2.0
#include "util/nvidia_host.h"

#include <filesystem>
#include <fstream>

namespace rgpu {
namespace {

constexpr const char *kVendor = "0x10de";
constexpr const char *kDisplays = "0x03";  // PCI's class of displays and 3D controllers

std::string first_word(const std::filesystem::path &path)
{
    std::ifstream file(path);
    std::string word;
    file >> word;
    return word;
}

}  // namespace

std::string nvidia_sign(const std::string &root)
{
    std::error_code failure;
    for (const char *path : {"/dev/nvidiactl", "/proc/driver/nvidia/version"})
        if (std::filesystem::exists(root + path, failure)) return std::string(path) + " is there";
    for (const auto &device :
         std::filesystem::directory_iterator(root + "/sys/bus/pci/devices", failure))
        if (first_word(device.path() / "vendor") == kVendor &&
            first_word(device.path() / "class").starts_with(kDisplays))
            return "PCI device " + device.path().filename().string() + " is a GPU of NVIDIA's";
    return {};
}

}  // namespace rgpu
