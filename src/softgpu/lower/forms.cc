// SPDX-License-Identifier: Apache-2.0
#include "softgpu/lower/forms.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace rgpu::softgpu::lower {

namespace {

bool is_strict()
{
    const char *set = getenv("RGPU_SOFTGPU_STRICT");
    return set && !strcmp(set, "1");
}

}  // namespace

Error refuse(const ptx::Instruction &in, const char *why, ErrorKind kind)
{
    return error(kind, "PTX line %u: '%.*s': %s", in.line,
                 static_cast<int>(std::min<size_t>(in.text.size(), 400)), in.text.data(), why);
}

Result<Forms> FormFinder::find(const ptx::Body &body)
{
    Forms forms;
    forms.reserve(body.instructions.size());
    for (const ptx::Instruction &in : body.instructions) {
        auto [known, added] = known_.try_emplace(in.opcode, nullptr);
        if (added) known->second = find_form(in.opcode);
        if (!known->second && is_strict()) return refuse(in, kUnknown);
        if (!known->second) known->second = unknown_form();
        forms.push_back(known->second);
    }
    return forms;
}

}  // namespace rgpu::softgpu::lower
