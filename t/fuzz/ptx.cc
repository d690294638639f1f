// SPDX-License-Identifier: Apache-2.0
// PTX, as a program's module may hold it.
#include <string_view>

#include "softgpu/ptx/parser.h"

using namespace rgpu::softgpu;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const std::string_view text(reinterpret_cast<const char *>(data), bytes);
    (void)ptx::parse_module(text, [](const ptx::Function &, const ptx::Body &) {
        return rgpu::Result<void>();
    }).has_value();
    return 0;
}
