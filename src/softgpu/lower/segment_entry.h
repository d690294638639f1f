// SPDX-License-Identifier: Apache-2.0
// The entry of a kernel that is cut into segments.
#pragma once

#include <string>

#include "softgpu/lower/segments.h"

namespace rgpu::softgpu::lower {

// For each segment the loop over lanes, the function that chooses among them, and the kernel.
// `parallel`: lanes are iterations without dependences.
std::string segments_entry(const std::string &kernel, const Segments &, const ptx::Body &,
                           bool parallel);

}  // namespace rgpu::softgpu::lower
