// SPDX-License-Identifier: Apache-2.0
#include "view/files.h"

#include <cstdint>
#include <cstdlib>

namespace rgpu::view {
namespace {

constexpr unsigned kVendor = 0x10de, kDevice = 0x0001, kClass = 0x030200;  // a 3D controller

// The standard header of PCI's configuration space, little endian.
std::string config_space()
{
    std::string bytes(256, '\0');
    auto put = [&](size_t at, unsigned value, int count) {
        for (int i = 0; i < count; i++) bytes[at++] = static_cast<char>(value >> 8 * i);
    };
    put(0x00, kVendor, 2);
    put(0x02, kDevice, 2);
    put(0x08, 0xa1, 1);  // revision
    put(0x09, kClass, 3);
    put(0x2c, kVendor, 2);  // subsystem
    put(0x2e, kDevice, 2);
    return bytes;
}

std::string hex(unsigned value, int digits)
{
    char text[16];
    snprintf(text, sizeof text, "0x%0*x\n", digits, value);
    return text;
}

}  // namespace

std::vector<File> driver_files(const std::vector<Gpu> &gpus)
{
    std::vector<File> files = {
        {"nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  rgpu " RGPU_VERSION
                           "  (the GPUs are remote: nvidia-smi tells their driver's release)\n"},
        {"nvidia/params", "ModifyDeviceFiles: 0\n"}};
    for (size_t i = 0; i < gpus.size(); i++)
        files.push_back(
            {"nvidia/gpus/" + gpus[i].pci + "/information",
             "Model: \t\t " + gpus[i].name + "\nIRQ:   \t\t 0\nGPU UUID: \t " + gpus[i].uuid +
                 "\nVideo BIOS: \t ??.??.??.??.??\nBus Type: \t PCIe\n"
                 "DMA Size: \t 47 bits\nDMA Mask: \t 0x7fffffffffff\nBus Location: \t " +
                 gpus[i].pci + "\nDevice Minor: \t " + std::to_string(i) +
                 "\nGPU Excluded:\t No\n"});
    return files;
}

std::vector<File> pci_files(const std::vector<Gpu> &gpus, int numa_node)
{
    std::vector<File> files;
    for (const Gpu &gpu : gpus) {
        const std::string at = gpu.pci + "/";
        files.push_back({at + "vendor", hex(kVendor, 4)});
        files.push_back({at + "device", hex(kDevice, 4)});
        files.push_back({at + "subsystem_vendor", hex(kVendor, 4)});
        files.push_back({at + "subsystem_device", hex(kDevice, 4)});
        files.push_back({at + "class", hex(kClass, 6)});
        files.push_back({at + "revision", hex(0xa1, 2)});
        files.push_back({at + "numa_node", std::to_string(numa_node) + "\n"});
        files.push_back({at + "enable", "1\n"});
        files.push_back({at + "irq", "0\n"});
        files.push_back({at + "label", gpu.name + "\n"});
        files.push_back({at + "uevent", "DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:0001\n"
                                        "PCI_SUBSYS_ID=10DE:0001\nPCI_SLOT_NAME=" +
                                            gpu.pci + "\n"});
        files.push_back({at + "resource", ""});
        files.push_back({at + "config", config_space()});
        // An empty directory with this one above it, for bus_links().
        files.push_back({at + "pci_bus/", ""});
    }
    return files;
}

std::vector<File> bus_links(const std::vector<Gpu> &gpus)
{
    std::vector<File> links;
    for (const Gpu &gpu : gpus)
        links.push_back({gpu.pci.substr(0, gpu.pci.rfind(':')),
                         "../../bus/pci/devices/" + gpu.pci + "/pci_bus"});
    return links;
}

}  // namespace rgpu::view
