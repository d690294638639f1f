// SPDX-License-Identifier: Apache-2.0
#include "worker/driver/device_memory.h"

#include <iterator>

#include "worker/driver/driver.h"

namespace rgpu::worker {

std::optional<uint64_t> end_of_device_memory(uint64_t address)
{
    constexpr uint64_t kPage = 4096;
    unsigned type = 0, managed = 0;
    CUdeviceptr begin = 0;
    size_t bytes = 0;
    CUpointer_attribute which[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *answers[] = {&type, &managed, &begin, &bytes};
    auto ask = DRIVER(cuPointerGetAttributes);
    if (!ask || ask(std::size(which), which, answers, address)) return {};
    // Some drivers write a byte for what is true or false.
    if (type != CU_MEMORYTYPE_DEVICE && !(managed & 0xff)) return {};
    if (address >= begin && address - begin < bytes) return begin + bytes;
    // A driver that does not say how far it goes means at least the page.
    return (address | (kPage - 1)) + 1;
}

bool is_device_memory(uint64_t address, uint64_t bytes)
{
    if (address + bytes < address) return false;  // wraps around
    for (const uint64_t end = address + bytes; address < end;) {
        const auto next = end_of_device_memory(address);
        if (!next || *next <= address) return false;
        address = *next;
    }
    return true;
}

}  // namespace rgpu::worker
