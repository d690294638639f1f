// SPDX-License-Identifier: Apache-2.0
// How long is a module image? The driver API passes images without their size.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "util/result.h"
#include "wire/module_bodies.h"

namespace rgpu::interpose {

// The parts of an image in this process's memory. The server puts them into a wrapper again, if
// they came in one.
struct Image {
    wire::ImageWrapping wrapping = wire::ImageWrapping::none;
    std::vector<std::string_view> parts;
};

// Understands PTX text, cubins (ELF), fat binaries and wrappers of one or (nvcc -rdc) several. What
// nvcc has linked of several is left out unless the server `takes_linked`.
Result<Image> measure_image(const void *image, bool takes_linked);

}  // namespace rgpu::interpose
