// SPDX-License-Identifier: Apache-2.0
// A compiled kernel as a file's bytes, with a checksum over all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "softgpu/compiler.h"

namespace rgpu::softgpu::exec {

// `key` is PtxModule::cache_key(): it is kept with the code, so that a file under a wrong name is
// not taken.
std::vector<uint8_t> to_file(std::string_view key, const CompiledKernel &);

// Empty for bytes that to_file() did not make, or not for this key, or that were changed since.
std::optional<CompiledKernel> from_file(std::string_view key, std::span<const uint8_t>);

}  // namespace rgpu::softgpu::exec
