// SPDX-License-Identifier: Apache-2.0
// This host's liblz4 and libzstd, opened when there is something to pack or unpack. Nothing of
// rgpu's is linked with them for this.
//
// They are opened in the program's own namespace and locally: a program that uses them has the same
// copies, undisturbed, as what is called here keeps nothing between two calls but in memory that
// the caller holds.
#pragma once

#include <cstddef>
#include <string>

#include "wire/packing.h"

namespace rgpu::net {

class PackLibrary {
public:
    // Opened at the first call, which may take milliseconds and ld.so's lock: not while holding a
    // lock that the program's calls take.
    static const PackLibrary &here();

    // Bits of PackMethod.
    unsigned methods() const { return methods_; }
    // What ld.so said of those that are not there.
    const std::string &missing() const { return missing_; }

    // What packing and unpacking need besides, kept from call to call; one thread at a time.
    class Memory {
    public:
        Memory() = default;
        Memory(const Memory &) = delete;
        Memory &operator=(const Memory &) = delete;
        ~Memory();

    private:
        friend PackLibrary;
        void *lz4_ = nullptr, *zstd_packer_ = nullptr, *zstd_unpacker_ = nullptr;
    };

    // How many bytes it took, 0 where `room` is too small or there is no memory.
    size_t pack(wire::PackMethod, const void *from, size_t bytes, void *to, size_t room,
                Memory &) const;
    // Whether that became `room` bytes exactly. Writes no more than those, whatever it is given.
    bool unpack(wire::PackMethod, const void *from, size_t bytes, void *to, size_t room,
                Memory &) const;

private:
    PackLibrary();
    unsigned methods_ = 0;
    std::string missing_;
};

}  // namespace rgpu::net
