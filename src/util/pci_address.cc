// SPDX-License-Identifier: Apache-2.0
#include "util/pci_address.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <set>

namespace rgpu {
namespace {

// Mainboards count domains from 0, VMD begins at 10000. Hyper-V takes any, so a job's view of /sys
// leaves out the node's own devices of these.
constexpr unsigned kFirst = 0x7000, kCount = 0x1000;
constexpr int kMostBuses = 255;  // bus 0 is the root's

// FNV-1a.
uint32_t hash(std::string_view text)
{
    uint32_t h = 2166136261u;
    for (unsigned char c : text) h = (h ^ c) * 16777619u;
    return h ^ h >> 16;
}

}  // namespace

std::vector<std::string> pci_addresses(const std::vector<ServerGpu> &gpus)
{
    std::vector<std::string> all;
    std::set<std::string> taken;
    for (size_t i = 0; i < gpus.size(); i++) {
        const int number = gpus[i].index >= 0 ? gpus[i].index : static_cast<int>(i % kMostBuses);
        unsigned domain = hash(gpus[i].server) % kCount + static_cast<unsigned>(number) / 255u;
        char text[32];
        do {
            snprintf(text, sizeof text, "%04x:%02x:00.0", kFirst + domain % kCount,
                     static_cast<unsigned>(number % kMostBuses) + 1);
            domain++;
        } while (taken.size() < kCount && taken.contains(text));
        taken.insert(text);
        all.push_back(text);
    }
    return all;
}

bool is_leased_address(std::string_view address)
{
    return address.size() > 4 && address[0] == '7' && address[4] == ':' &&
           std::all_of(address.begin() + 1, address.begin() + 4,
                       [](unsigned char c) { return isxdigit(c); });
}

}  // namespace rgpu
