// SPDX-License-Identifier: Apache-2.0
// How long is a module image? The driver API passes images without their size.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "util/result.h"

namespace rgpu::interpose {

// The parts of an image in this process's memory. `wrapped` = they came in a fat binary wrapper
// (what nvcc's host code passes), and the server puts them into one again.
struct Image {
    bool wrapped = false;
    std::vector<std::string_view> parts;
};

// Understands PTX text, cubins (ELF), fat binaries and wrappers of one or (nvcc -rdc) several.
Result<Image> measure_image(const void *image);

}  // namespace rgpu::interpose
