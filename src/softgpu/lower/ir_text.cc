// SPDX-License-Identifier: Apache-2.0
#include "softgpu/lower/ir_text.h"

namespace rgpu::softgpu::lower {

std::string ll_int(unsigned bits) { return "i" + std::to_string(bits); }

std::string ll(Type t)
{
    std::string element;
    if (t.kind == Type::flt)
        element = t.width == 16 ? "half" : t.width == 32 ? "float" : "double";
    else if (t.kind == Type::bf || t.kind == Type::tf32)
        return ll_int(t.total());
    else
        element = ll_int(t.width);
    if (t.lanes == 1) return element;
    return "<" + std::to_string(t.lanes) + " x " + element + ">";
}

std::string storage_type(Type t)
{
    if (t.kind == Type::flt && t.lanes == 1 && t.width >= 32) return ll(t);
    return ll_int(t.total());
}

}  // namespace rgpu::softgpu::lower
