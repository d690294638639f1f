// SPDX-License-Identifier: Apache-2.0
#include "interpose/mirror/addresses.h"

#include "interpose/mirror/mirror.h"
#include "interpose/state/placed_memory.h"

namespace rgpu::interpose {

std::optional<AddressOwner> owner_of_address(CUdeviceptr address)
{
    if (const auto owner = owner_of_range(address)) return owner;
    if (!mirror::any()) return std::nullopt;
    const auto b = mirror::find(address);
    return b && b->mirrored && b->context
               ? std::optional(AddressOwner{Handles::get().at(b->context)->server, b->context})
               : std::nullopt;
}

bool taken_elsewhere(CUdeviceptr base, size_t bytes)
{
    return mirror::addresses_elsewhere(base, bytes) || is_range_elsewhere(base, bytes);
}

bool is_device_address(CUdeviceptr address)
{
    if (mirror::any())
        if (auto b = mirror::find(address)) return b->mirrored;
    return is_server_address(address);
}

bool is_device_range(CUdeviceptr address, size_t bytes, Access access)
{
    while (mirror::any()) {
        const auto b = mirror::find(address);
        if (!b) break;
        const size_t here = b->bytes - (address - b->device);
        if ((bytes > here && !b->piece) || mirror::share(address)) return false;
        if (bytes <= here) return true;
        address += here, bytes -= here;
    }
    if (const auto allocated = is_allocated(address, bytes, access)) return *allocated;
    // Where the server's memory lies is known beforehand: there, what no call gave is nothing.
    return !knows_place_of_memory() && is_device_address(address);
}

void forget_allocations(HandleId context)
{
    mirror::forget_context(context);
    forget_ranges(context);
    placed::forget_context(context);
}

}  // namespace rgpu::interpose
