// SPDX-License-Identifier: Apache-2.0
// The names of PTX's types.
#include "softgpu/ptx/type.h"

namespace rgpu::softgpu::ptx {

namespace {

struct Named {
    std::string_view name;
    Type type;
};

constexpr Named kTypes[] = {
    {"b32", {Type::bits, 32, 1}},       {"b64", {Type::bits, 64, 1}},
    {"u32", {Type::uns, 32, 1}},        {"s32", {Type::sgn, 32, 1}},
    {"f32", {Type::flt, 32, 1}},        {"f64", {Type::flt, 64, 1}},
    {"pred", {Type::pred, 1, 1}},       {"u64", {Type::uns, 64, 1}},
    {"s64", {Type::sgn, 64, 1}},        {"b16", {Type::bits, 16, 1}},
    {"u16", {Type::uns, 16, 1}},        {"s16", {Type::sgn, 16, 1}},
    {"b8", {Type::bits, 8, 1}},         {"u8", {Type::uns, 8, 1}},
    {"s8", {Type::sgn, 8, 1}},          {"f16", {Type::flt, 16, 1}},
    {"f16x2", {Type::flt, 16, 2}},      {"bf16", {Type::bf, 16, 1}},
    {"bf16x2", {Type::bf, 16, 2}},      {"b128", {Type::bits, 128, 1}},
    {"tf32", {Type::tf32, 32, 1}},      {"u16x2", {Type::uns, 16, 2}},
    {"s16x2", {Type::sgn, 16, 2}},      {"f32x2", {Type::flt, 32, 2}},
    {"e4m3x2", {Type::e4m3, 8, 2}},     {"e5m2x2", {Type::e5m2, 8, 2}},
    {"texref", {Type::opaque, 64, 1}},  {"samplerref", {Type::opaque, 64, 1}},
    {"surfref", {Type::opaque, 64, 1}},
};

}  // namespace

Type parse_type(std::string_view name)
{
    for (const Named &t : kTypes)
        if (t.name == name) return t.type;
    return {};
}

}  // namespace rgpu::softgpu::ptx
