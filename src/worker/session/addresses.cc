// SPDX-License-Identifier: Apache-2.0
// Look-ups of addresses, here and at the driver.
#include "worker/session/addresses.h"

#include <algorithm>

#include "worker/bands/bands.h"
#include "worker/driver/device_memory.h"

namespace rgpu::worker {

namespace {

using Wide = unsigned __int128;

// What wraps around is nobody's.
bool wraps(uint64_t address, uint64_t bytes) { return address + bytes < address; }

// Whether memory is an allocation of the band, which a pool's page is not. For the driver, what
// lies beside it there is one with it.
bool stands_alone(uint64_t address)
{
    const auto memory = bands() ? bands()->find(address) : std::nullopt;
    return memory && memory->bytes && !memory->pooled;
}

// The entry of a map from beginnings that `address` lies in, or the end.
template <class Map, class Bytes> auto holder(Map &map, uint64_t address, Bytes bytes_of)
{
    auto it = map.upper_bound(address);
    if (it == map.begin()) return map.end();
    --it;
    return address - it->first < bytes_of(it->second) ? it : map.end();
}

}  // namespace

void Addresses::give(uint64_t address, uint64_t bytes, Life life)
{
    if (!address || !bytes || wraps(address, bytes)) return;
    take(address, bytes);  // what the driver gives out anew was freed, however
    grants_[address] = {bytes, life};
}

void Addresses::take(uint64_t address)
{
    grants_.erase(address);
    forget_last();
}

void Addresses::take(uint64_t address, uint64_t bytes)
{
    if (wraps(address, bytes)) return;
    auto it = holder(grants_, address, [](const Grant &g) { return g.bytes; });
    if (it == grants_.end()) it = grants_.lower_bound(address);
    while (it != grants_.end() && it->first < address + bytes) it = grants_.erase(it);
    forget_last();
}

void Addresses::forget_linear()
{
    std::erase_if(grants_, [](const auto &g) { return g.second.life == Life::linear; });
    forget_last();
}

bool Addresses::look_for(uint64_t address, uint64_t bytes)
{
    if (wraps(address, bytes)) return false;
    // Memory may be mapped piece by piece.
    const uint64_t begin = address, end = address + bytes;
    while (address < end) {
        const uint64_t piece = address;
        const auto it = holder(grants_, address, [](const Grant &g) { return g.bytes; });
        if (it != grants_.end()) {
            last_begin_ = it->first, last_end_ = it->first + it->second.bytes;
            address = last_end_;
        } else {
            const auto next = end_of_device_memory(address);
            if (!next || *next <= address) return false;
            address = *next;
        }
        if ((piece != begin || address < end) && stands_alone(piece)) return false;
    }
    return true;
}

bool Addresses::has_rows(uint64_t address, uint64_t width, uint64_t pitch, uint64_t rows)
{
    if (!width || !rows) return true;
    const Wide bytes = Wide{pitch} * (rows - 1) + width;
    return !(bytes >> 64) && has(address, static_cast<uint64_t>(bytes));
}

bool Addresses::has_box(const CUDA_MEMCPY3D &c)
{
    if (!c.WidthInBytes || !c.Height || !c.Depth) return true;
    // From the first byte to the last, however the driver reads a pitch or height of zero: as none,
    // or as what lies close together.
    const auto side = [&](CUmemorytype type, uint64_t base, size_t pitch, size_t height, size_t x,
                          size_t y, size_t z) {
        if (type != CU_MEMORYTYPE_DEVICE) return true;
        constexpr Wide kFar = Wide{1} << 60;  // products of two such fit
        const Wide row = pitch ? pitch : c.WidthInBytes, slice = row * (height ? height : c.Height);
        if (row > kFar || slice > kFar || Wide{y} + c.Height > kFar || Wide{z} + c.Depth > kFar)
            return false;
        const Wide first = Wide{base} + x + (pitch ? y * row : 0) + (height ? z * slice : 0);
        const Wide end = Wide{base} + x + (z + c.Depth - 1) * slice + (y + c.Height - 1) * row +
                         c.WidthInBytes;
        return !(end >> 64) &&
               has(static_cast<uint64_t>(first), static_cast<uint64_t>(end - first));
    };
    return side(c.srcMemoryType, c.srcDevice, c.srcPitch, c.srcHeight, c.srcXInBytes, c.srcY,
                c.srcZ) &&
           side(c.dstMemoryType, c.dstDevice, c.dstPitch, c.dstHeight, c.dstXInBytes, c.dstY,
                c.dstZ);
}

void Addresses::reserve(uint64_t address, uint64_t bytes)
{
    if (!wraps(address, bytes)) reserved_[address] = bytes;
}

bool Addresses::has_reserved(uint64_t address, uint64_t bytes) const
{
    if (!bytes || wraps(address, bytes)) return false;
    for (const uint64_t end = address + bytes; address < end;) {
        const auto it = holder(reserved_, address, [](uint64_t b) { return b; });
        if (it == reserved_.end()) return false;
        address = it->first + it->second;
    }
    return true;
}

void Addresses::take(calls::Token of, uint64_t number)
{
    const auto it = tokens_.find({of, number});
    if (it != tokens_.end() && !--it->second) tokens_.erase(it);
}

}  // namespace rgpu::worker
