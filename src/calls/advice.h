// What programs said about managed memory: advice and prefetches. Nothing moves here; it is kept to
// be asked back.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "calls/cuda_api.h"

namespace rgpu::softgpu::driver {

struct Advice {
    bool read_mostly = false;
    CUmemLocation preferred = {CU_MEM_LOCATION_TYPE_INVALID, 0},
                  prefetched = {CU_MEM_LOCATION_TYPE_INVALID, 0};
    std::set<int> accessed_by;  // devices, and CU_DEVICE_CPU
};

// Any thread.
class Advices {
public:
    // Changes what is known of each piece of [address, address + bytes).
    void change(uint64_t address, uint64_t bytes, const std::function<void(Advice &)> &);
    // Calls it for each piece of [address, address + bytes).
    void look(uint64_t address, uint64_t bytes, const std::function<void(const Advice &)> &) const;
    // The memory is freed.
    void forget(uint64_t address, uint64_t bytes);

private:
    void split(uint64_t at);

    mutable std::mutex mutex_;
    struct Piece {
        uint64_t end;
        Advice advice;
    };
    std::map<uint64_t, Piece> pieces_;  // by their beginning; none where nothing was said
};

// Of the process; never destroyed.
Advices &advices();

}  // namespace rgpu::softgpu::driver
