// SPDX-License-Identifier: Apache-2.0
// Called device functions that the engine supplies (vprintf and so on).
#pragma once

#include <string_view>
#include <vector>

#include "softgpu/lower/ir_text.h"

namespace rgpu::softgpu::lower {

class Lower;

struct External {
    std::string_view name;
    void (*lower)(Lower &, const std::vector<V> &returns, const std::vector<V> &parameters);
};
// Null where there is none of this name.
const External *find_external(std::string_view name);

}  // namespace rgpu::softgpu::lower
