// SPDX-License-Identifier: Apache-2.0
// Special registers: %tid.x and so on.
#pragma once

#include <cstdint>
#include <string_view>

#include "softgpu/lower/ir_text.h"

namespace rgpu::softgpu::lower {

class Lower;

// A special register by its name, with its type, or null where it is unknown.
struct Special {
    std::string_view name;
    Type type;
    V (*value)(Lower &);
};
const Special *find_special(std::string_view name);
// Where the %reserved_smem_offset_* point: a variable of the kernels that read them. Cooperative
// groups count on 288 bytes.
inline constexpr std::string_view kReservedSharedName = "%reserved_smem";
inline constexpr uint32_t kReservedShared = 320;

}  // namespace rgpu::softgpu::lower
