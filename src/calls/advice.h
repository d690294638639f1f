// SPDX-License-Identifier: Apache-2.0
// What programs said about managed memory, advice and prefetches (CUDA Driver API, "Unified
// Addressing"), and what is answered when they ask it back: written once for both our drivers, in
// both of which managed memory never moves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "calls/cuda_api.h"

namespace rgpu::calls {

inline constexpr CUmemLocation kNowhere{CU_MEM_LOCATION_TYPE_INVALID, 0};

// The first versions of the calls name a device, or CU_DEVICE_CPU.
CUmemLocation location_of(CUdevice);

// Whether this advice is about the location that comes with it.
bool names_location(CUmem_advise);

// By address. Who calls has seen that the range is one of managed memory, and that a location which
// matters is one. Any thread.
class Advices {
public:
    // CUDA_ERROR_INVALID_VALUE for an advice that there is not.
    CUresult advise(uint64_t address, uint64_t bytes, CUmem_advise, CUmemLocation);
    void prefetched(uint64_t address, uint64_t bytes, CUmemLocation to);
    // cuMemRangeGetAttribute: what all of the range has, or that it has not one.
    CUresult attribute(void *data, size_t room, CUmem_range_attribute, uint64_t address,
                       uint64_t bytes) const;
    // The memory is freed.
    void forget(uint64_t address, uint64_t bytes);

private:
    struct Advice {
        bool read_mostly = false;
        CUmemLocation preferred = kNowhere, last_prefetched = kNowhere;
        std::set<int> accessed_by;  // devices, and CU_DEVICE_CPU
    };
    struct Piece {
        uint64_t end;
        Advice advice;
    };

    void change(uint64_t address, uint64_t bytes, const std::function<void(Advice &)> &);
    Advice common(uint64_t address, uint64_t bytes) const;
    void split(uint64_t at);

    mutable std::mutex mutex_;
    std::map<uint64_t, Piece> pieces_;  // by their beginning; none where nothing was said
};

}  // namespace rgpu::calls
