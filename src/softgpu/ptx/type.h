// SPDX-License-Identifier: Apache-2.0
// PTX's fundamental types, as an instruction's modifier or a declaration names them.
#pragma once

#include <cstdint>
#include <string_view>

namespace rgpu::softgpu::ptx {

// A value's type, small enough to be passed as a value. `lanes` of `width` bits each.
struct Type {
    enum Kind : uint8_t { none, pred, bits, uns, sgn, flt, bf, tf32, e4m3, e5m2, opaque };
    Kind kind = none;
    uint16_t width = 0;  // of one element, in bits
    uint8_t lanes = 1;   // 2 for f16x2 and the like

    unsigned total() const { return unsigned{width} * lanes; }
    unsigned bytes() const { return kind == pred ? 1 : total() / 8; }
    bool integer() const { return kind == bits || kind == uns || kind == sgn; }
    bool is_signed() const { return kind == sgn; }
    explicit operator bool() const { return kind != none; }
    bool operator==(const Type &) const = default;
};

// The type called `name` ("u32", without the dot); kind none where there is no such type.
Type parse_type(std::string_view name);

}  // namespace rgpu::softgpu::ptx
