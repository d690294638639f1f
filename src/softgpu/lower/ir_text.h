// SPDX-License-Identifier: Apache-2.0
// LLVM IR as text: values, the names of types, and pieces put together.
#pragma once

#include <string>
#include <string_view>

#include "softgpu/ptx/type.h"

namespace rgpu::softgpu::lower {

using ptx::Type;

// The text of an LLVM value: "%v12", "42".
using V = std::string;

// LLVM's name for a type's values: i32, float, <2 x half>; bf16 and tf32 are integers.
std::string ll(Type);
// "i32" for 32.
std::string ll_int(unsigned bits);
// How a register is kept: floats as floats, so that loops carry them in float registers.
std::string storage_type(Type);
inline constexpr Type kPred{Type::pred, 1, 1}, kB8{Type::bits, 8, 1}, kB16{Type::bits, 16, 1},
    kB32{Type::bits, 32, 1}, kB64{Type::bits, 64, 1}, kB128{Type::bits, 128, 1},
    kU32{Type::uns, 32, 1}, kS32{Type::sgn, 32, 1}, kU64{Type::uns, 64, 1}, kS64{Type::sgn, 64, 1},
    kF16{Type::flt, 16, 1}, kF16x2{Type::flt, 16, 2}, kF32{Type::flt, 32, 1},
    kF64{Type::flt, 64, 1};
inline Type bits_of(Type t) { return Type{Type::bits, static_cast<uint16_t>(t.total()), 1}; }
inline Type with_width(Type t, unsigned w) { return Type{t.kind, static_cast<uint16_t>(w), 1}; }

inline std::string join() { return {}; }
template <class... Parts> std::string join(const Parts &...parts)
{
    std::string s;
    ((s += parts), ...);
    return s;
}

}  // namespace rgpu::softgpu::lower
