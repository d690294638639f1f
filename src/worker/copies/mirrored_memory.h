// SPDX-License-Identifier: Apache-2.0
// Memory that the client's program and its kernels share: stretches of device memory at addresses
// which mean the same in the program, each with a twin, the last content that both sides agreed on.
// See wire/diff.h.
//
// Bytes travel on a stream of our own, which waits for no other: whatever the program's streams
// stand at, a push or a pull gets through, and a push is done before the dispatcher goes on to the
// launch behind it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "calls/cuda_api.h"
#include "util/result.h"
#include "wire/mirror.h"

namespace rgpu::worker {

class MirroredMemory {
public:
    // Whole granules of addresses, at `hint` if that can be had (0: anywhere), for both sides.
    CUresult reserve(uint64_t hint, uint64_t bytes, uint64_t &address);
    // Zeroed memory of the current context's device behind what reserve() gave.
    CUresult back(uint64_t address);
    // The same at addresses that the program reserved (cuMemAddressReserve): the caller has looked.
    CUresult back_mapped(uint64_t address, uint64_t bytes);
    // A variable that the driver itself placed. Its content arrives with the first pull.
    CUresult adopt(uint64_t address, uint64_t bytes);
    // Gives up what reserve() gave, or what back_mapped() or adopt() took.
    CUresult release(uint64_t address);

    // Applies a diff of [address, address + bytes) to the twin and to the device. `exclusive`: no
    // work is under way that could write there, so that bytes between changed ones may be written
    // too. `invalid`: a damaged diff.
    Result<CUresult> push(wire::MirroredRange, bool exclusive, const uint8_t *diff,
                          size_t diff_bytes);
    // Appends what the device changed in the ranges, as entries of address, bytes, length of diff,
    // diff. Any thread, in the context of the call.
    CUresult pull(const std::vector<wire::MirroredRange> &, std::vector<uint8_t> &answer);

    // Before a context ends: what was made in it ends with it.
    void forget(CUcontext);

private:
    // Who gave the addresses: we, the program, or the driver, which placed a variable there.
    enum class Given : uint8_t { by_us, by_program, by_driver };
    struct Stretch {
        uint64_t bytes = 0;
        uint8_t *twin = nullptr;  // null: addresses alone
        Given given = Given::by_us;
    };
    // What copies to and from the device in one context.
    struct Path {
        CUstream stream = nullptr;
        uint8_t *buffer[2] = {};
        CUevent ready[2] = {};
    };
    struct Piece {
        uint64_t address;
        uint8_t *twin;
        size_t bytes;
    };

    // With the lock held, as all below.
    CUresult back(uint64_t address, Stretch &);
    // The twin of a range that lies in one stretch; null when it does not.
    uint8_t *twin_of(wire::MirroredRange);
    CUresult path(Path *&);
    CUresult fetch(Path &, int which, const Piece *, size_t count);
    static void compare(const Piece &, const uint8_t *now, std::vector<uint8_t> &answer);

    std::mutex mutex_;
    std::map<uint64_t, Stretch> stretches_;
    std::map<CUcontext, Path> paths_;
};

}  // namespace rgpu::worker
