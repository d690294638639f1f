// SPDX-License-Identifier: Apache-2.0
// Texture reads: tex and tld4 by texture objects. The engine does the work (exec/texture.cc). There
// are no mipmaps: level 0 is all there is, whatever an instruction says of levels.
#include "softgpu/texture.h"

#include "softgpu/abi.h"
#include "softgpu/lower/lower.h"

namespace rgpu::softgpu::lower {

namespace {

struct Geometry {
    std::string_view name;
    unsigned dimensions;
    bool layered;
};
constexpr Geometry kGeometries[] = {
    {"1d", 1, false}, {"2d", 2, false}, {"3d", 3, false}, {"a1d", 1, true}, {"a2d", 2, true}};

// {d0, d1, d2, d3}, [object, {coordinates}] ...
void tex(Lower &l)
{
    const Operand &d = l.operand(0), &from = l.operand(1);
    const Form &form = l.form();
    const Geometry *geometry = nullptr;
    for (const Geometry &g : kGeometries)
        if (form.has(g.name)) geometry = &g;
    const bool gather = form.row->opcode == "tld4";
    // The result's type is the first one, the coordinates' the second.
    const Type result = form.types[0], coordinate = form.type_count > 1 ? form.types[1] : kF32;
    if (d.kind != Operand::vector || from.kind != Operand::list || from.count != 2)
        return l.fail("{registers}, [texture, {coordinates}] are expected");
    const Operand &object = l.child(from, 0), &at = l.child(from, 1);
    if (object.kind != Operand::reg)
        return l.fail("textures are had by objects, not by references (.texref)");

    uint32_t how = geometry->dimensions | (geometry->layered ? kTexLayered : 0u);
    if (coordinate.kind != Type::flt) how |= kTexByInteger;
    if (gather)
        how |= kTexGather | (form.has("g")   ? 1u
                             : form.has("b") ? 2u
                             : form.has("a") ? 3u
                                             : 0u)
                                << 8;
    if (result.kind != Type::flt) how |= result.is_signed() ? kTexAsS32 : kTexAsU32;

    const unsigned wanted = geometry->dimensions + geometry->layered;
    const unsigned given = at.kind == Operand::vector ? at.count : 1;
    if (given < wanted) return l.fail("too few coordinates");
    V in = l.slot("[4 x i32]"), out = l.slot("[4 x i32]");
    for (unsigned i = 0; i < wanted; ++i) {
        V to = i ? l.def("getelementptr i8, ptr ", in, ", i64 ", 4 * i) : in;
        l.emit("store i32 ", l.read(at.kind == Operand::vector ? l.child(at, i) : at, kB32),
               ", ptr ", to);
    }
    l.runtime("void", "rt_tex", "ptr, i64, i32, ptr, ptr",
              join("ptr ", l.block_state(), ", i64 ", l.read(object, kB64), ", i32 ",
                   std::to_string(how), ", ptr ", in, ", ptr ", out),
              "nounwind");
    for (unsigned i = 0; i < d.count; ++i) {
        if (l.child(d, i).kind == Operand::sink) continue;
        V at_i = i ? l.def("getelementptr i8, ptr ", out, ", i64 ", 4 * i) : out;
        V v = l.def("load i32, ptr ", at_i);
        if (result.total() == 16) {  // f16 results
            v = l.cast(l.def("fptrunc float ", l.cast(v, "i32", "float"), " to half"), "half",
                       "i16");
            l.write(l.child(d, i), v, kB16);
        } else {
            l.write(l.child(d, i), v, kB32);
        }
    }
}

#define GEOMETRY "1d|2d|3d|a1d|a2d"

const Row kRows[] = {
    {"tex", GEOMETRY " v4 u32|s32|f32|f16 s32|f32", 2, 4, tex},
    {"tex", "base|level " GEOMETRY " v4 u32|s32|f32|f16 s32|f32", 2, 5, tex},
    {"tex", "grad " GEOMETRY " v4 u32|s32|f32|f16 f32", 4, 6, tex},
    {"tld4", "r|g|b|a 2d|a2d v4 u32|s32|f32 f32", 2, 4, tex},
};

}  // namespace

std::span<const Row> texture_rows() { return kRows; }

}  // namespace rgpu::softgpu::lower
