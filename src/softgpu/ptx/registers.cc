// SPDX-License-Identifier: Apache-2.0
// CU_JIT_MAX_REGISTERS as PTX can say it, so that it stays with an image that the linker made.
#include <string>

#include "softgpu/compiler.h"
#include "softgpu/ptx/parser.h"

namespace rgpu::softgpu {

Result<std::string> PtxModule::limit_registers(std::string_view text, unsigned most)
{
    while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
    auto parsed = ptx::parse_module(
        text, [](const ptx::Function &, const ptx::Body &) { return Result<void>{}; });
    if (!parsed) return std::move(parsed).error();
    std::string out;
    const char *copied = text.data();
    for (const ptx::Function &f : parsed->functions) {  // in the order of the text
        if (!f.kernel || !f.defined) continue;
        const char *brace = f.body.data() - 1;
        out.append(copied, static_cast<size_t>(brace - copied));
        out += ".maxnreg " + std::to_string(most) + "\n";
        copied = brace;
    }
    out.append(copied, static_cast<size_t>(text.data() + text.size() - copied));
    return out;
}

}  // namespace rgpu::softgpu
