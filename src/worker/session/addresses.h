// SPDX-License-Identifier: Apache-2.0
// Which numbers that come off the wire are the session's: addresses of its memory, addresses that
// it has reserved, and the driver's numbers of its objects. With unified addressing a driver takes
// any address of this process for a copy or a set, the worker's own memory too: so no frame's
// address reaches it before it was looked for here. The table says which parameters are such
// numbers (calls/roles.h, Use).
//
// A kernel's parameters are not looked at: what a kernel reads or writes the GPU checks. A kernel
// on a software GPU is native code in this process, and not held by anything here.
//
// Dispatcher only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "calls/cuda_api.h"
#include "calls/roles.h"

namespace rgpu::worker {

class Addresses {
public:
    // Memory that is known here is found without the driver. `linear` ends with its context, at the
    // latest.
    enum class Life { linear, lasting };
    void give(uint64_t address, uint64_t bytes, Life);
    void take(uint64_t address);
    void take(uint64_t address, uint64_t bytes);
    // A context ends. What it leaves the driver knows.
    void forget_linear();

    // Whether all these bytes are the session's memory. True for none.
    bool has(uint64_t address, uint64_t bytes)
    {
        if (address >= last_begin_ && address < last_end_ && bytes <= last_end_ - address)
            return true;
        return !bytes || look_for(address, bytes);
    }
    // The same for so many rows of `width` bytes, `pitch` apart.
    bool has_rows(uint64_t address, uint64_t width, uint64_t pitch, uint64_t rows);
    bool has_box(const CUDA_MEMCPY3D &);

    // Addresses without memory.
    void reserve(uint64_t address, uint64_t bytes);
    void unreserve(uint64_t address) { reserved_.erase(address); }
    bool has_reserved(uint64_t address, uint64_t bytes) const;

    // Objects that the driver gives numbers to, in spaces of their own. One may be given out
    // several times, and ends as often.
    void give(calls::Token of, uint64_t number) { tokens_[{of, number}]++; }
    void take(calls::Token of, uint64_t number);
    bool has(calls::Token of, uint64_t number) const { return tokens_.contains({of, number}); }

private:
    struct Grant {
        uint64_t bytes = 0;
        Life life = Life::linear;
    };
    bool look_for(uint64_t address, uint64_t bytes);
    void forget_last() { last_begin_ = last_end_ = 0; }

    std::map<uint64_t, Grant> grants_;        // none overlaps another
    uint64_t last_begin_ = 0, last_end_ = 0;  // the one of `grants_` that was found last
    std::map<uint64_t, uint64_t> reserved_;
    std::map<std::pair<calls::Token, uint64_t>, unsigned> tokens_;
};

}  // namespace rgpu::worker
